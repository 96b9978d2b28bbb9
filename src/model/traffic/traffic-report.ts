import type {Family} from '../address.ts';
import type {Finding, ServiceName} from '../finding.ts';

/** Which endpoints get the connections of Services: the data of `top`. */
export interface TrafficReport {
  readonly tool: {readonly name: string; readonly version: string};
  /** Seconds between the two reads; null for a single read. */
  readonly interval: number | null;
  readonly ports: readonly PortTraffic[];
  /** Sorted by name. */
  readonly nodes: readonly NodeTraffic[];
  readonly findings: readonly Finding[];
}

/** One port of one Service in one family. */
export interface PortTraffic {
  readonly family: Family;
  readonly service: ServiceName;
  readonly port: {readonly name: string; readonly protocol: string; readonly port: number};
  /** Unusual ones first. */
  readonly endpoints: readonly EndpointTraffic[];
  readonly totals: PortTotals;
}

/** The sum over the measured nodes. */
export interface PortTotals {
  /** Null if no node was measured. */
  readonly newPerSecond: number | null;
  readonly totalConnections: number | null;
  readonly openConnections: number | null;
  /** How many nodes the new connections are from (for a single read, the totals), and how many nodes kube-proxy serves. */
  readonly measuredNodes: number;
  readonly nodes: number;
}

/** `stale`: no longer a usable endpoint of the Service, or never one. */
type EndpointState = 'ready' | 'terminating' | 'stale';

export interface EndpointTraffic {
  /** `ip:port`. */
  readonly hostPort: string;
  /** `namespace/name`. */
  readonly pod: string | null;
  readonly podNode: string | null;
  readonly state: EndpointState;
  readonly totals: EndpointTotals;
  /** Sorted by name; nodes without data about this Service port are left out. */
  readonly nodes: readonly CellTraffic[];
}

/** The sum over the measured nodes; null if none was measured. */
export interface EndpointTotals extends Pick<CellTraffic, 'totalConnections' | 'openConnections' | 'closingConnections'> {
  readonly newPerSecond: number | null;
  /** The share of the port's new connections; for a single read, of all connections counted. Null if there were none. */
  readonly share: number | null;
  /** The share that the nodes' rules give it, weighted by the connections that each node counted. */
  readonly expectedShare: number | null;
  /** The share that kube-proxy should give it, weighted likewise. */
  readonly dueShare: number | null;
  /**
   * The deviation of its new connections from its share, in standard deviations (below 0 if it gets fewer); null if the distribution is not
   * random.
   */
  readonly deviation: number | null;
}

/** One node's counts for one endpoint. Null is "not measured", which is not 0. */
export interface CellTraffic {
  readonly node: string;
  /** New connections between the two reads. */
  readonly newConnections: number | null;
  /** Seconds between the two reads of this node. */
  readonly seconds: number | null;
  /** New connections since kube-proxy last wrote the endpoint's rules. */
  readonly totalConnections: number | null;
  /** TCP: established. UDP: flows. */
  readonly openConnections: number | null;
  /** TCP: one end has closed, and the kernel keeps the entry for a while. */
  readonly closingConnections: number | null;
  /** 0 to 1: the share of new connections to the cluster IP that the node's rules give it; null if the rules were not read. */
  readonly expectedShare: number | null;
  /** 0 to 1: the share that kube-proxy should give it; null if that is not known. */
  readonly dueShare: number | null;
}

/** New connections in a second; null if that was not measured. */
export function perSecond({newConnections, seconds}: CellTraffic): number | null {
  return newConnections === null || seconds === null || seconds <= 0 ? null : newConnections / seconds;
}

export type TrafficSource = 'counters' | 'conntrack' | 'ipvs';

export interface NodeTraffic {
  readonly name: string;
  /** `partial`: some counters of the mode could not be read. */
  readonly status: 'measured' | 'partial' | 'unread' | 'unsupported';
  /** Why it was not measured, or only in part. */
  readonly reason?: string;
  readonly proxyMode?: string;
  readonly sources: readonly TrafficSource[];
  /** How far its rates can be off, as a part of them: a read takes time. Null without two reads. */
  readonly rateError: number | null;
}
