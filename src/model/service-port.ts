import type {ServiceObject} from './api-objects.ts';
import type {Family} from './family.ts';

export type Protocol = 'TCP' | 'UDP' | 'SCTP';

/** One port of one Service in one family, like kube-proxy's `BaseServicePortInfo`: the input for all its rules. */
export interface ServicePort {
  readonly family: Family;
  readonly namespace: string;
  readonly service: string;
  /** Empty for an unnamed port. */
  readonly portName: string;
  readonly protocol: Protocol;
  /** kube-proxy's ServicePortName: `namespace/name:port`; from 1.20 on without the colon if the port has no name. */
  readonly servicePortName: string;
  /** The part of its chain names that all its chains have in common. */
  readonly hash: string;
  readonly clusterIP: string;
  readonly port: number;
  /** 0 if there is none. */
  readonly nodePort: number;
  readonly externalIPs: readonly string[];
  /** Load-balancer addresses that kube-proxy serves (`ipMode: VIP`). */
  readonly loadBalancerVIPs: readonly string[];
  /** Networks in canonical form; empty means that every client is allowed. */
  readonly sourceRanges: readonly string[];
  readonly externalPolicyLocal: boolean;
  readonly internalPolicyLocal: boolean;
  /** Seconds; null without session affinity. */
  readonly affinitySeconds: number | null;
  /** 0 if there is none. */
  readonly healthCheckNodePort: number;
  readonly object: ServiceObject;
}

export function hasExternalEntry(port: ServicePort): boolean {
  return port.nodePort !== 0 || port.loadBalancerVIPs.length > 0 || port.externalIPs.length > 0;
}
