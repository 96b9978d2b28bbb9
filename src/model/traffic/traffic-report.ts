import type {Family} from '../family.ts';
import type {Finding, ServiceName} from '../finding.ts';

/** Who gets the connections of Services: what `top` shows. */
export interface TrafficReport {
  readonly tool: {readonly name: string; readonly version: string};
  /** Seconds between the two reads; null where there was one. */
  readonly interval: number | null;
  readonly ports: readonly PortTraffic[];
  /** In the order of their names. */
  readonly nodes: readonly NodeTraffic[];
  readonly findings: readonly Finding[];
}

/** One port of one Service in one family. */
export interface PortTraffic {
  readonly family: Family;
  readonly service: ServiceName;
  readonly port: {readonly name: string; readonly protocol: string; readonly port: number};
  /** The odd ones first. */
  readonly endpoints: readonly EndpointTraffic[];
  readonly totals: PortTotals;
}

/** Over the nodes that were measured. */
export interface PortTotals {
  /** Null where no node was measured. */
  readonly newPerSecond: number | null;
  readonly totalConnections: number | null;
  readonly openConnections: number | null;
  /** How many nodes the new connections are of (the totals, where there was one read), and how many nodes kube-proxy serves. */
  readonly measuredNodes: number;
  readonly nodes: number;
}

/** `stale`: no usable endpoint of the Service any more, or none it ever had. */
type EndpointState = 'ready' | 'terminating' | 'stale';

export interface EndpointTraffic {
  /** `ip:port`. */
  readonly hostPort: string;
  /** `namespace/name`. */
  readonly pod: string | null;
  readonly podNode: string | null;
  readonly state: EndpointState;
  readonly totals: EndpointTotals;
  /** In the order of their names; nodes that say nothing of this Service port are left out. */
  readonly nodes: readonly CellTraffic[];
}

/** Over the nodes that were measured; null where none was. */
export interface EndpointTotals {
  readonly newPerSecond: number | null;
  readonly totalConnections: number | null;
  readonly openConnections: number | null;
  readonly closingConnections: number | null;
  /** Of the new connections of the port, or of all that were counted where there was one read; null where there were none. */
  readonly share: number | null;
  /** The part that the nodes' rules give it, weighed by the connections that each node counted. */
  readonly expectedShare: number | null;
  /** By how many standard deviations it gets more (or fewer, below 0) new connections than its share; null where chance does not decide. */
  readonly deviation: number | null;
}

/** What one node counted of one endpoint. Null is "not measured", which is not 0. */
export interface CellTraffic {
  readonly node: string;
  /** New connections between the two reads. */
  readonly newConnections: number | null;
  /** Seconds between the two reads of this node. */
  readonly seconds: number | null;
  /** New connections since kube-proxy last wrote the rules of the endpoint. */
  readonly totalConnections: number | null;
  /** TCP: established. UDP: flows. */
  readonly openConnections: number | null;
  /** TCP: one end has closed, and the kernel keeps the entry for a while. */
  readonly closingConnections: number | null;
  /** 0 to 1: the part of new connections to the cluster IP that the node's rules give it; null where they were not read. */
  readonly expectedShare: number | null;
}

export type TrafficSource = 'counters' | 'conntrack' | 'ipvs';

export interface NodeTraffic {
  readonly name: string;
  /** `partial`: something that the mode counts could not be measured. */
  readonly status: 'measured' | 'partial' | 'unread' | 'unsupported';
  /** Why it was not measured, or not all of it. */
  readonly reason?: string;
  readonly proxyMode?: string;
  readonly sources: readonly TrafficSource[];
}
