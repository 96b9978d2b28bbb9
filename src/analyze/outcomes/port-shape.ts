import type {ServedPort} from '../../expect/cluster/served-port.ts';

/** All properties of a Service port that decide which base rules its packets match, in a mode whose base rules name no Service. */
export function shapeOf({port, endpoints}: ServedPort, hostIPs: readonly string[]): string {
  return [
    port.protocol,
    port.externalPolicyLocal,
    port.internalPolicyLocal,
    port.nodePort !== 0,
    port.loadBalancerVIPs.length > 0,
    port.externalIPs.length > 0,
    port.sourceRanges.length > 0,
    endpoints.hasAny,
    endpoints.local.length > 0,
    endpoints.reachable.some(({address}) => hostIPs.includes(address)),
  ].join();
}

/** The last Service port of each shape. */
export function onePerShape<Port extends ServedPort>(ports: readonly Port[], shape: (item: Port) => string): readonly Port[] {
  return [...new Map(ports.map(item => [shape(item), item])).values()];
}
