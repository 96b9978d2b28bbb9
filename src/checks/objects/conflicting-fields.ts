import {writesExternalIPs} from '../../expect/cluster/proxy-versions.ts';
import {servicePorts, whyNotServed} from '../../expect/cluster/service-ports.ts';
import {families, type Family, parseCidr} from '../../model/address.ts';
import {headlessLabel, type ServiceObject} from '../../model/api-objects.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {Check, ClusterContext} from '../check.ts';
import {ofFields} from '../commands/commands.ts';

export const rangesOfOneFamily: Check<'ST114'> = {
  code: 'ST114',
  name: 'source-ranges-of-one-family',
  severity: 'warning',
  summary: 'loadBalancerSourceRanges name one family alone, and a load-balancer IP of the other one admits everybody',
  remedy: 'Add the ranges of the other family. To admit nobody there, use a range of documentation such as 2001:db8::/128.',
  *cluster(context) {
    for (const {service, port} of portsWithRanges(context)) {
      if (port.loadBalancerVIPs.length === 0 || prefixesOf(service, port.family).length > 0) continue;
      const address = port.loadBalancerVIPs.join(', ');
      const text = `: loadBalancerSourceRanges have no ${port.family} range: its ${port.family} load-balancer IP ${address} admits every client`;
      yield ofFields(service, text);
    }
  },
};

export const externalIPWithRanges: Check<'ST115'> = {
  code: 'ST115',
  name: 'external-ip-with-source-ranges',
  severity: 'warning',
  summary: 'An address is external IP and load-balancer IP at once, so that iptables mode ignores loadBalancerSourceRanges',
  remedy: 'Remove the address from externalIPs: the load-balancer IP serves it, and only there do the ranges hold.',
  *cluster(context) {
    if (!writesExternalIPs(context.proxy.version, context.proxy.gates)) return;
    for (const {service, port} of portsWithRanges(context)) {
      const both = port.loadBalancerVIPs.filter(address => port.externalIPs.includes(address));
      const prefixes = prefixesOf(service, port.family);
      // A range of all addresses limits nobody.
      if (both.length === 0 || prefixes.length === 0 || prefixes.includes(0)) continue;
      const text = `: ${both.join(', ')} is external IP and load-balancer IP: iptables mode admits every client there, nftables and IPVS mode only loadBalancerSourceRanges`;
      yield ofFields(service, text);
    }
  },
};

export const headlessLabelWithClusterIP: Check<'ST116'> = {
  code: 'ST116',
  name: 'headless-label-with-cluster-ip',
  severity: 'warning',
  summary: `kube-proxy up to 1.35 does not serve a Service with a cluster IP and the label ${headlessLabel}`,
  remedy: `Remove the label ${headlessLabel} from the Service: controllers set it on EndpointSlices, and Services need none.`,
  *cluster({services, proxy}) {
    for (const service of services.filter(({metadata}) => metadata.labels?.[headlessLabel] !== undefined)) {
      const {[headlessLabel]: _, ...labels} = service.metadata.labels ?? {};
      const without = {...service, metadata: {...service.metadata, labels}};
      if (whyNotServed(service, proxy.version) === null || whyNotServed(without, proxy.version) !== null) continue;
      const text = ` has the cluster IP ${service.spec?.clusterIP ?? ''} and the label ${headlessLabel}: kube-proxy up to 1.35 ignores the Service, and connections to it fail`;
      yield ofFields(service, text);
    }
  },
};

/** One port of each family of the Services with ranges: all ports of a family have the same addresses. */
function* portsWithRanges({
  services,
  proxy,
}: Pick<ClusterContext, 'services' | 'proxy'>): Iterable<{readonly service: ServiceObject; readonly port: ServicePort}> {
  for (const service of services.filter(({spec}) => (spec?.loadBalancerSourceRanges ?? []).length > 0)) {
    for (const family of families) {
      const [port] = servicePorts(service, family, proxy);
      if (port !== undefined) yield {service, port};
    }
  }
}

/** Of the source ranges of one family. */
function prefixesOf({spec}: ServiceObject, family: Family): readonly number[] {
  return (spec?.loadBalancerSourceRanges ?? [])
    .flatMap(range => parseCidr(range.trim()) ?? [])
    .filter(cidr => cidr.family === family)
    .map(({prefix}) => prefix);
}
