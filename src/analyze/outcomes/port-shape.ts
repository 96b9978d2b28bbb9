import type {ServedPort} from '../../expect/cluster/served-port.ts';

/** All that decides which rules of the frame a Service port's packets meet, in a mode whose frame knows no Service by itself. */
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
