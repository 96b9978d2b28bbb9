import {clusterIPOf, whyNotServed} from '../../expect/cluster/service-ports.ts';
import {familyOf} from '../../model/address.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import {families} from '../../model/family.ts';
import type {Check} from '../check.ts';
import {nameOf} from '../service-observation.ts';
import {editService} from '../commands/service-commands.ts';

export const addressFamilyMismatch: Check<'ST105'> = {
  code: 'ST105',
  name: 'address-family-mismatch',
  severity: 'warning',
  summary: 'An external IP or load-balancer IP is of a family that the Service does not have',
  remedy: 'Make the Service dual-stack (ipFamilyPolicy: PreferDualStack) or remove the address: kube-proxy writes no rule for it.',
  *cluster({services, proxy}) {
    for (const service of services.filter(hasExternalAddress)) {
      if (whyNotServed(service, proxy.version) !== null) continue;
      const externalIPs = service.spec?.externalIPs ?? [];
      const ingress = service.status?.loadBalancer?.ingress ?? [];
      const external = externalIPs.map(address => ({address, what: 'external IP'}));
      const balancer = ingress.flatMap(({ip}) => (ip === undefined ? [] : [{address: ip, what: 'load-balancer IP'}]));
      const own = families.filter(family => clusterIPOf(service, family) !== null);
      for (const {address, what} of [...external, ...balancer]) {
        const family = familyOf(address);
        if (family !== null && own.includes(family)) continue;
        const reason = family === null ? 'is no IP address' : `is ${family}, and the Service has only ${own.join(' and ')}`;
        yield {
          service: nameOf(service),
          ...editService(nameOf(service)),
          message: `${nameOf(service).namespace}/${nameOf(service).name}: ${what} ${address} ${reason}: no node serves it`,
        };
      }
    }
  },
};

function hasExternalAddress({spec, status}: ServiceObject): boolean {
  return (spec?.externalIPs ?? []).length > 0 || (status?.loadBalancer?.ingress ?? []).length > 0;
}
