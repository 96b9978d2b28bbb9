import {whyNotServed} from '../../expect/cluster/service-ports.ts';
import type {Check} from '../check.ts';
import {nameOf} from '../service-observation.ts';
import {showService} from '../commands/service-commands.ts';

export const notServedByKubeProxy: Check<'ST107'> = {
  code: 'ST107',
  name: 'not-served-by-kube-proxy',
  severity: 'info',
  summary: 'The Service is headless, ExternalName or given to another proxy: no rules are expected',
  remedy: 'No action is needed if this is intended. If clients cannot reach it, check DNS or the other proxy.',
  // Only for Services that were named: a cluster has many of them, and they are not faulty.
  *cluster({services, proxy, byName}) {
    if (!byName) return;
    for (const service of services) {
      const reason = whyNotServed(service, proxy.version);
      const {namespace, name} = nameOf(service);
      if (reason === null) continue;
      const message = `${namespace}/${name} is not served by kube-proxy: ${reason}`;
      yield {service: {namespace, name}, message, ...showService({namespace, name})};
    }
  },
};
