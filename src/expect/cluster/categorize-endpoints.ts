import type {CategorizedEndpoints, Endpoint} from '../../model/endpoint.ts';
import {type ServicePort, usesClusterEndpoints, usesLocalEndpoints} from '../../model/service-port.ts';
import * as versions from './proxy-versions.ts';
import {once} from '../../model/once.ts';
import {topologyOf} from './endpoint-sets.ts';
import type {ProxyVersion} from '../../model/proxy-config.ts';

/** What kube-proxy knows of its node when it selects endpoints. */
export interface NodeTopology {
  readonly nodeName: string;
  readonly zone: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly proxy: ProxyVersion;
}

/** Which endpoints the chains of a Service port use on one node. Follows `CategorizeEndpoints` of `pkg/proxy/topology.go`. */
export function categorizeEndpoints(port: ServicePort, endpoints: readonly Endpoint[], node: NodeTopology): CategorizedEndpoints {
  if (endpoints.length === 0) return nothing;
  return versions.hasExternalChains(node.proxy.version) ? categorize(port, endpoints, node) : categorizeBefore124(port, endpoints, node);
}

const nothing: CategorizedEndpoints = {cluster: [], local: [], reachable: [], hasAny: false};

function categorize(port: ServicePort, endpoints: readonly Endpoint[], node: NodeTopology): CategorizedEndpoints {
  const fallBack = versions.usesTerminatingEndpoints(node.proxy.version, node.proxy.gates);
  const lastResort = (list: readonly Endpoint[]): readonly Endpoint[] => (fallBack ? list.filter(isLeaving) : []);
  const usesCluster = usesClusterEndpoints(port);
  let cluster: readonly Endpoint[] = [];
  const mode = usesCluster ? topologyMode(port, endpoints, node) : null;
  const same = mode === null && !usesLocalEndpoints(port) ? allReady(endpoints) : null;
  if (same !== null) return same;
  if (usesCluster) {
    cluster = those(endpoints, endpoint => endpoint.ready && satisfies(endpoint, mode, node));
    if (cluster.length === 0) cluster = lastResort(endpoints);
  }
  if (!usesLocalEndpoints(port)) return {cluster, local: [], reachable: cluster, hasAny: cluster.length > 0};
  const hasAny = endpoints.some(endpoint => endpoint.ready || (fallBack && isLeaving(endpoint)));
  const here = endpoints.filter(endpoint => endpoint.nodeName === node.nodeName);
  const readyHere = here.filter(({ready}) => ready);
  const local = readyHere.length > 0 ? readyHere : lastResort(here);
  return {cluster, local, reachable: union(cluster, local), hasAny};
}

/** The result for clients that may use all endpoints, if all are ready: the same on every node. Null otherwise. */
const allReady = once((endpoints: readonly Endpoint[]): CategorizedEndpoints | null =>
  endpoints.every(({ready}) => ready) ? {cluster: endpoints, local: [], reachable: endpoints, hasAny: endpoints.length > 0} : null,
);

/** Those for which it holds: the list itself if that is all, as of nearly every Service port. */
function those(endpoints: readonly Endpoint[], holds: (endpoint: Endpoint) => boolean): readonly Endpoint[] {
  return endpoints.every(holds) ? endpoints : endpoints.filter(holds);
}

/** Not ready, but still serving while terminating: used if there is no other endpoint. */
function isLeaving(endpoint: Endpoint): boolean {
  return !endpoint.ready && endpoint.serving && endpoint.terminating;
}

type TopologyMode = 'PreferSameNode' | 'PreferSameZone' | null;

/** Follows `topologyModeFromHints`: hints count only if all ready endpoints have them and one names this node or its zone. */
export function topologyMode(port: ServicePort, endpoints: readonly Endpoint[], node: NodeTopology): TopologyMode {
  const {version, gates} = node.proxy;
  const first = endpoints.find(endpoint => endpoint.ready);
  if (first === undefined || (first.nodeHints === null && first.zoneHints === null)) return null;
  const ready = versions.needsHintsOfReadyOnly(version) ? endpoints.filter(endpoint => endpoint.ready) : endpoints;
  if (versions.honorsNodeHints(version, gates)) {
    const all = ready.every(({nodeHints}) => nodeHints !== null);
    if (all && ready.some(({nodeHints}) => nodeHints?.includes(node.nodeName))) return 'PreferSameNode';
  }
  if (!versions.honorsZoneHints(version, gates, port.object.metadata.annotations ?? {})) return null;
  const {zone} = node;
  if (zone === null || zone === '') return null;
  const all = ready.every(({zoneHints}) => zoneHints !== null);
  return all && ready.some(({zoneHints}) => zoneHints?.includes(zone)) ? 'PreferSameZone' : null;
}

function satisfies(endpoint: Endpoint, mode: TopologyMode, {nodeName, zone}: NodeTopology): boolean {
  if (mode === 'PreferSameNode') return endpoint.nodeHints?.includes(nodeName) ?? false;
  if (mode === 'PreferSameZone') return zone !== null && (endpoint.zoneHints?.includes(zone) ?? false);
  return true;
}

function union(cluster: readonly Endpoint[], local: readonly Endpoint[]): readonly Endpoint[] {
  if (cluster.length === 0) return local;
  const known = new Set(cluster);
  return [...cluster, ...local.filter(endpoint => !known.has(endpoint))];
}

/** Before 1.24: the internal policy Local replaces all other endpoints, unless the external policy is Local. */
function categorizeBefore124(port: ServicePort, all: readonly Endpoint[], node: NodeTopology): CategorizedEndpoints {
  const {version, gates} = node.proxy;
  const onlyLocal = port.internalPolicyLocal && !port.externalPolicyLocal && versions.honorsInternalPolicy(version, gates);
  const hinted = !port.externalPolicyLocal && !port.internalPolicyLocal ? topologyMode(port, all, node) : null;
  const near = port.externalPolicyLocal ? all : byTopologyKeys(port, all, node);
  const considered = near.filter(endpoint => (onlyLocal ? endpoint.nodeName === node.nodeName : satisfies(endpoint, hinted, node)));
  const cluster = considered.filter(({ready}) => ready);
  const countsAll = versions.countsUnreadyEndpoints(version);
  if (!port.externalPolicyLocal) {
    const counted = countsAll ? considered : cluster;
    return {cluster, local: [], reachable: counted, hasAny: counted.length > 0};
  }
  const fallBack = versions.usesTerminatingEndpoints(version, gates);
  const here = considered.filter(({nodeName}) => nodeName === node.nodeName);
  const readyHere = here.filter(({ready}) => ready);
  const local = readyHere.length > 0 || !fallBack ? readyHere : here.filter(isLeaving);
  if (countsAll) return {cluster, local, reachable: considered, hasAny: considered.length > 0};
  const hasAny = cluster.length > 0 || (fallBack && considered.some(isLeaving));
  return {cluster, local, reachable: union(cluster, local), hasAny};
}

/**
 * The endpoints that match the first applicable topology key of the Service; `*` matches all. Follows `FilterTopologyEndpoint` of 1.17 to
 * 1.21.
 */
function byTopologyKeys({object}: ServicePort, endpoints: readonly Endpoint[], {labels, proxy}: NodeTopology): readonly Endpoint[] {
  const keys = object.spec?.topologyKeys ?? [];
  if (keys.length === 0 || !versions.honorsTopologyKeys(proxy.version, proxy.gates)) return endpoints;
  for (const key of keys) {
    if (key === '*') return endpoints;
    const found = endpoints.filter(({sliceEndpoint}) => labels[key] !== undefined && topologyOf(sliceEndpoint)[key] === labels[key]);
    if (found.length > 0) return found;
  }
  return [];
}
