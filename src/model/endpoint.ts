import type {SliceEndpoint} from './api-objects.ts';

/** One address of one Service port, as kube-proxy keeps it. */
export interface Endpoint {
  readonly address: string;
  readonly port: number;
  /** `10.0.0.1:80` or `[fd00::1]:80`: kube-proxy's key, sort order and DNAT destination. */
  readonly hostPort: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  readonly nodeName: string | null;
  /** Names of zones and nodes that the hints give; null without hints. */
  readonly zoneHints: readonly string[] | null;
  readonly nodeHints: readonly string[] | null;
  /** The endpoint as it stands in the slice. */
  readonly given: SliceEndpoint;
  /** `namespace/name` of the pod behind it. */
  readonly pod: string | null;
  /** Name of the EndpointSlice that holds it. */
  readonly slice: string;
  /** The name of its chain in iptables mode, from when somebody first asked (`ClusterView`): hashing it is a good part of the work. */
  chainName?: string | undefined;
}

/** All endpoints of one Service port, merged and sorted as kube-proxy does it. */
export interface EndpointSet {
  readonly endpoints: readonly Endpoint[];
  /**
   * Endpoints that the API holds more than once with different content, by `hostPort`: kube-proxy keeps one of them,
   * and which one is not always defined. Empty in nearly all clusters.
   */
  readonly ambiguous: ReadonlyMap<string, readonly Endpoint[]>;
}

/** What kube-proxy's `CategorizeEndpoints` makes of an EndpointSet on one node. */
export interface CategorizedEndpoints {
  /** Used by cluster-policy chains. */
  readonly cluster: readonly Endpoint[];
  /** Used by local-policy chains. */
  readonly local: readonly Endpoint[];
  /** All that get a chain of their own. */
  readonly reachable: readonly Endpoint[];
  /** Whether the Service has any usable endpoint, on whatever node. */
  readonly hasAny: boolean;
}
