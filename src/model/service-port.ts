import {joinHostPort, type Family, type Protocol} from './address.ts';
import type {ServiceObject} from './api-objects.ts';

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

/** The kinds of addresses at which clients reach a Service port. */
export type EntryKind = 'clusterIP' | 'nodePort' | 'loadBalancerIP' | 'externalIP';

export interface Entry {
  readonly kind: EntryKind;
  /** Null for a node port, which answers on addresses of the node. */
  readonly address: string | null;
  readonly port: number;
}

/** In the range of node ports, where nobody set another. */
export function isNodePort(port = 0): boolean {
  return port >= 30_000 && port <= 32_767;
}

/** Port 0 stands for an entry that the rules do not show. */
export function entryText({kind, address, port}: Entry): string {
  if (port === 0) return 'an entry that is not in this text';
  if (address === null) return `node port ${port}`;
  return `${entryNames[kind]} ${joinHostPort(address, port)}`;
}

/** ` through its node port 30080`; empty for the cluster IP, which goes without saying. */
export function throughEntry(entry: Entry | undefined): string {
  return entry === undefined || entry.kind === 'clusterIP' ? '' : ` through its ${entryText(entry)}`;
}

export const entryNames: Readonly<Record<EntryKind, string>> = {
  clusterIP: 'cluster IP',
  nodePort: 'node port',
  loadBalancerIP: 'load-balancer IP',
  externalIP: 'external IP',
};

/** Why kube-proxy writes no rules for a Service. */
export type UnservedKind = 'externalName' | 'headless' | 'otherProxy' | 'noClusterIP';

export function usesClusterEndpoints(port: ServicePort): boolean {
  return !port.internalPolicyLocal || hasExternalEntry(port);
}

export function usesLocalEndpoints(port: ServicePort): boolean {
  return port.internalPolicyLocal || (port.externalPolicyLocal && hasExternalEntry(port));
}
