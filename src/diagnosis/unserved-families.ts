import {clusterIPOf} from '../expect/cluster/service-ports.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import {families, type Family} from '../model/family.ts';
import type {PortTrace, UnservedAddress} from '../model/service-trace.ts';

/**
 * Adds to the traces of one node the cluster IPs of families that its kube-proxy does not serve: up to 1.20 it serves one. A family that
 * could not be read is not added, because that is a finding.
 */
export function withUnservedFamilies(
  traces: readonly PortTrace[],
  services: readonly ServiceObject[],
  unread: readonly {readonly family: Family}[],
): readonly PortTrace[] {
  const served = new Set([...traces, ...unread].map(({family}) => family));
  const others = families.filter(family => !served.has(family));
  if (others.length === 0) return traces;
  return traces.map(trace => {
    const unserved = others.flatMap(family => clusterIP(trace, services, family));
    return unserved.length === 0 ? trace : {...trace, unserved: [...unserved, ...(trace.unserved ?? [])]};
  });
}

function clusterIP(
  {service, port, family: served}: PortTrace,
  services: readonly ServiceObject[],
  family: Family,
): readonly UnservedAddress[] {
  const object = services.find(({metadata}) => metadata.name === service.name && (metadata.namespace ?? 'default') === service.namespace);
  const address = object === undefined ? null : clusterIPOf(object, family);
  if (address === null) return [];
  return [{kind: 'clusterIP', address, port: port.port, reason: `kube-proxy on this node serves ${served} only`}];
}
