import type {NodeContext} from '../../expect/node-context.ts';
import {clusterIPOf} from '../../expect/cluster/cluster-view.ts';
import {honorsIPMode, writesExternalIPs} from '../../expect/cluster/proxy-versions.ts';
import {canonicalAddress, families, familyOf} from '../../model/address.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {UnservedAddress} from '../../model/service-trace.ts';
import {entryAddresses} from './probes.ts';

/** The addresses of a Service port for which this node's kube-proxy writes no rules in this family, each with the reason. */
export function unservedAddresses(port: ServicePort, context: NodeContext): readonly UnservedAddress[] {
  return [...ofNodePort(port, context), ...unservedFromOutside(port, context)];
}

/** The same without node ports, for which the addresses of the node must be known. */
export function unservedFromOutside(port: ServicePort, proxy: Proxy): readonly UnservedAddress[] {
  return [...ofLoadBalancer(port, proxy), ...ofExternalIPs(port, proxy)];
}

type Proxy = Pick<NodeContext, 'version' | 'gates'>;

function ofNodePort(port: ServicePort, context: NodeContext): readonly UnservedAddress[] {
  const {nodePort, object} = port;
  const entry = {kind: 'nodePort', address: null, port: nodePort} as const;
  if (nodePort === 0) {
    const {type, allocateLoadBalancerNodePorts} = object.spec ?? {};
    if (type !== 'LoadBalancer' || allocateLoadBalancerNodePorts !== false) return [];
    return [{...entry, reason: 'allocateLoadBalancerNodePorts is false'}];
  }
  if (entryAddresses(entry, context).length > 0) return [];
  const {nodePortCIDRs, family} = context;
  if (nodePortCIDRs === null) return [{...entry, reason: `no ${family} address of this node is known`}];
  const cidrs = nodePortCIDRs.length === 0 ? '' : ` (${nodePortCIDRs.join(', ')})`;
  return [{...entry, reason: `nodePortAddresses${cidrs} selects no ${family} address of this node`}];
}

function ofLoadBalancer(port: ServicePort, {version, gates}: Proxy): readonly UnservedAddress[] {
  const {spec, status} = port.object;
  const ingress = status?.loadBalancer?.ingress ?? [];
  if (ingress.length === 0 && spec?.type === 'LoadBalancer' && isFirstFamily(port))
    return [{kind: 'loadBalancerIP', address: null, port: port.port, reason: 'pending: status.loadBalancer has no address yet'}];
  const isProxy = honorsIPMode(version, gates) ? (mode: string | undefined) => mode === 'Proxy' : () => false;
  return ingress.flatMap(({ip, hostname, ipMode}): readonly UnservedAddress[] => {
    const base = {kind: 'loadBalancerIP', port: port.port} as const;
    if (ip === undefined)
      return hostname === undefined || !isFirstFamily(port)
        ? []
        : [{...base, address: hostname, reason: 'a DNS name: connections go to the load balancer'}];
    const address = canonicalAddress(ip) ?? ip;
    const reason = whyOtherFamily(port, address);
    if (reason !== null) return [{...base, address, reason}];
    if (familyOf(address) !== port.family || !isProxy(ipMode)) return [];
    return [{...base, address, reason: 'ipMode is Proxy: connections go to the load balancer'}];
  });
}

function ofExternalIPs(port: ServicePort, {version, gates}: Proxy): readonly UnservedAddress[] {
  const areWritten = writesExternalIPs(version, gates);
  return (port.object.spec?.externalIPs ?? []).flatMap((ip): readonly UnservedAddress[] => {
    const address = canonicalAddress(ip) ?? ip;
    const base = {kind: 'externalIP', address, port: port.port} as const;
    const reason = whyOtherFamily(port, address);
    if (reason !== null) return [{...base, reason}];
    if (familyOf(address) !== port.family || areWritten) return [];
    return [{...base, reason: 'the feature gate AllowServiceExternalIPs of kube-proxy is off'}];
  });
}

/** Told once, at the first family of the Service: an address of a family that the Service does not have. Else null. */
function whyOtherFamily(port: ServicePort, address: string): string | null {
  const family = familyOf(address);
  if (!isFirstFamily(port) || family === port.family) return null;
  if (family === null) return 'it is not an IP address';
  return clusterIPOf(port.object, family) === null ? `the Service has no ${family} cluster IP` : null;
}

function isFirstFamily({object, family}: ServicePort): boolean {
  return families.find(candidate => clusterIPOf(object, candidate) !== null) === family;
}
