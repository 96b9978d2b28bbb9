import type {EndpointSliceObject, SliceEndpoint} from './api-objects.ts';
import {namespacedName} from './text.ts';
import type {ServicePort} from './service-port.ts';

/** One address of one Service port, as kube-proxy stores it. */
export interface Endpoint {
  readonly address: string;
  readonly port: number;
  /** `10.0.0.1:80` or `[fd00::1]:80`: kube-proxy's key, sort order and DNAT destination. */
  readonly hostPort: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  readonly nodeName: string | null;
  /** The names of zones and nodes in the hints; null without hints. */
  readonly zoneHints: readonly string[] | null;
  readonly nodeHints: readonly string[] | null;
  /** The endpoint as written in the slice. */
  readonly sliceEndpoint: SliceEndpoint;
  /** Name of the EndpointSlice that contains it. */
  readonly slice: string;
  /** The name of its chain in iptables mode, computed on the first request (`ClusterView`), because hashing takes much of the time. */
  chainName?: string | undefined;
}

/** `namespace/name` of the pod behind an endpoint; null if none is known. */
export function podOf({sliceEndpoint: {targetRef}}: Pick<Endpoint, 'sliceEndpoint'>): string | null {
  return targetRef?.kind === 'Pod' && targetRef.name !== undefined ? `${targetRef.namespace ?? ''}/${targetRef.name}` : null;
}

/** All endpoints of one Service port, merged and sorted like in kube-proxy. */
export interface EndpointSet {
  readonly endpoints: readonly Endpoint[];
  /**
   * Endpoints that the API contains more than once with different content, by `hostPort`: kube-proxy keeps one of them, and which one is
   * not always defined. Empty in nearly all clusters.
   */
  readonly ambiguous: ReadonlyMap<string, readonly Endpoint[]>;
}

/** The result of kube-proxy's `CategorizeEndpoints` for an EndpointSet on one node. */
export interface CategorizedEndpoints {
  /** Used by cluster-policy chains. */
  readonly cluster: readonly Endpoint[];
  /** Used by local-policy chains. */
  readonly local: readonly Endpoint[];
  /** All endpoints with a chain of their own. */
  readonly reachable: readonly Endpoint[];
  /** Whether the Service has any usable endpoint, on any node. */
  readonly hasAny: boolean;
}

/** The label of an EndpointSlice with the name of its Service. */
export const serviceNameLabel = 'kubernetes.io/service-name';

/** The Service that a slice belongs to, `namespace/name`; null if it belongs to none. */
export function sliceService({metadata: {namespace, labels}}: EndpointSliceObject): string | null {
  const name = labels?.[serviceNameLabel];
  return name === undefined || name === '' ? null : namespacedName({namespace, name});
}

/** One Service port with the endpoints that kube-proxy on one node has for it, in any proxy mode. */
export interface ServedPort {
  readonly port: ServicePort;
  readonly endpoints: CategorizedEndpoints;
  /** All endpoints, whether usable or not. */
  readonly all: readonly Endpoint[];
  /** How many lists of endpoints kube-proxy can have built: more than one if the API contains duplicate endpoints. */
  readonly lists: number;
  /** The name under which the node stores the clients of an endpoint: a `recent` list or an affinity set. */
  readonly clientList: (endpoint: Endpoint) => string;
}

/** A Service port in iptables and IPVS mode: `recent` lists have the names of the endpoint chains. */
export interface PortWithChains extends ServedPort {
  /** The chain of an endpoint; its name is the same on every node. */
  readonly endpointChain: (endpoint: Endpoint) => string;
}
