import {whyNotServed} from '../../expect/cluster/service-ports.ts';
import type {Check} from '../check.ts';
import {nameOf} from '../service-observation.ts';

export const notServedByKubeProxy: Check<'ST107'> = {
  code: 'ST107',
  name: 'not-served-by-kube-proxy',
  severity: 'info',
  summary: 'The Service is headless, ExternalName or given to another proxy: no rules are expected',
  remedy: 'Nothing to do when this is meant. Look at DNS, or at the other proxy, when clients cannot reach it.',
  // Only for Services that were asked for by name: in a whole cluster there are many, and all is well with them.
  *cluster({services, proxy, byName}) {
    if (!byName) return;
    for (const service of services) {
      const reason = whyNotServed(service, proxy.version);
      const {namespace, name} = nameOf(service);
      if (reason !== null) yield {service: {namespace, name}, message: `${namespace}/${name} is not served by kube-proxy: ${reason}`};
    }
  },
};
