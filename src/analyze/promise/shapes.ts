import type {NodeData} from '../proxy-mode.ts';
import {nodeObject, podsOnNode} from '../../expect/api-index.ts';
import {ClusterView, type PortEntry, serviceKey, proxyVersion} from '../../expect/cluster/cluster-view.ts';
import {readsEndpoints} from '../../expect/cluster/proxy-versions.ts';
import {addressInside, contains, type Family, familyOf, parseAddress, parseCidr} from '../../model/address.ts';
import type {Endpoint} from '../../model/endpoint.ts';
import {pushTo, uniqueBy} from '../../model/lists.ts';
import {noNetworkFacts, type NodeFacts} from '../../model/node/node-facts.ts';
import {once} from '../../model/once.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {ApiObjects} from '../../model/snapshot.ts';

/** A node of which it is asked whether what its kube-proxy writes keeps what the API promises. */
export interface PromiseNode extends Pick<NodeData, 'api' | 'view' | 'config' | 'facts'> {
  readonly families: readonly Family[];
  /** Left out where all Services are asked for, and where what is promised of others matters for what is said of these. */
  readonly isAsked?: ((port: ServicePort) => boolean) | undefined;
}

/** Service ports that neither the API nor kube-proxy treats differently on this node: one of them stands for all. */
export interface Shape {
  readonly key: string;
  readonly first: PortEntry;
  readonly entries: () => readonly PortEntry[];
}

/** The same for all nodes. */
export const isChosenByZone = once(
  ({port, set}: PortEntry) => port.object.spec?.topologyKeys !== undefined || set.endpoints.some(({zoneHints}) => zoneHints !== null),
);

/** Where duplicates leave it open which endpoints there are, nothing is asked. */
export function shapesOf({view, config, facts, api}: PromiseNode, family: Family): readonly Shape[] {
  const proxy = proxyVersion(config);
  if (api.endpointSlices === null || readsEndpoints(proxy.version, proxy.gates)) return [];
  const entries = view.entries(family, proxy);
  const {alike, related, byNode} = groupsIn(entries);
  const named = [...(byNode.get(facts.name) ?? []), ...(byNode.get(config.nodeName.value) ?? [])];
  const own = new Set(config.mode.value === 'ipvs' ? entries.filter(isDefined) : [...named, ...related]);
  const relation = relations(config, facts, family);
  const place = placing(facts, config);
  const groups = new Map<string, PortEntry[]>();
  for (const entry of own) pushTo(groups, `${fieldsOf(entry)} ${relation(entry)} ${classesOf(entry, place)}`, entry);
  return [
    ...[...groups].flatMap(([key, list]) => list.slice(0, 1).map(first => ({key, first, entries: () => list}))),
    ...[...alike].flatMap(([key, list]) => {
      const first = list.find(entry => !own.has(entry));
      return first === undefined ? [] : [{key, first, entries: () => list.filter(entry => !own.has(entry))}];
    }),
  ];
}

/**
 * The same for all nodes with one version of kube-proxy. `alike`: those that are the same for all nodes that have none of their endpoints.
 * `related`: those whose addresses or source ranges may be the node's.
 */
const groupsIn = once((entries: readonly PortEntry[]) => {
  const alike = new Map<string, PortEntry[]>();
  const related: PortEntry[] = [];
  const byNode = new Map<string, PortEntry[]>();
  for (const entry of entries.filter(isDefined)) {
    if (isRelated(entry)) related.push(entry);
    else pushTo(alike, `${fieldsOf(entry)} ${classesOf(entry, ({nodeName}) => (nodeName === null ? 2 : 4))}`, entry);
    for (const {nodeName} of entry.set.endpoints) {
      const known = nodeName === null ? undefined : byNode.get(nodeName);
      if (known === undefined && nodeName !== null) byNode.set(nodeName, [entry]);
      else if (known?.at(-1) !== entry) known?.push(entry);
    }
  }
  return {alike, related, byNode};
});

function isDefined({set}: PortEntry): boolean {
  return set.ambiguous.size === 0;
}

function isRelated({port: {loadBalancerVIPs, externalIPs, object}}: PortEntry): boolean {
  return loadBalancerVIPs.length > 0 || externalIPs.length > 0 || (object.spec?.loadBalancerSourceRanges ?? []).length > 0;
}

const fieldsOf = once(({port}: PortEntry): string => {
  const {spec = {}, status, metadata} = port.object;
  const {type, externalTrafficPolicy, internalTrafficPolicy, sessionAffinity, externalIPs, loadBalancerSourceRanges} = spec;
  const ingress = (status?.loadBalancer?.ingress ?? []).filter(({ip}) => familyOf(ip ?? '') === port.family);
  const annotations = Object.entries(metadata.annotations ?? {}).filter(([name]) => name.startsWith('service.kubernetes.io/topology'));
  return JSON.stringify([
    port.protocol,
    type,
    externalTrafficPolicy,
    internalTrafficPolicy,
    sessionAffinity,
    port.nodePort > 0,
    ingress.map(({ip, ipMode}) => [ipMode, externalIPs?.includes(ip ?? '')]),
    port.externalIPs.length,
    annotations,
    spec.topologyKeys,
    (loadBalancerSourceRanges ?? []).length > 0,
  ]);
});

/** How addresses of a Service port stand to those of the node and to the networks in its settings: empty for nearly all of them. */
function relations({mode, clusterCIDRs}: ProxyConfig, {podCIDRs, hostIPs}: NodeFacts, family: Family): (entry: PortEntry) => string {
  // Only IPVS mode gives the node the addresses of Services, and packets of the node have them as their source.
  const networks = mode.value === 'ipvs' ? clusterCIDRs.value.flatMap(text => parseCidr(text) ?? []) : [];
  const known = [...hostIPs, ...podCIDRs.flatMap(text => addressInside(parseCidr(text) ?? noNetwork, new Set()) ?? [])];
  const isIn = (text: string, list: typeof networks): boolean => {
    const address = parseAddress(text);
    return address !== null && list.some(network => contains(network, address));
  };
  return ({port}) => {
    const given = port.object.spec?.loadBalancerSourceRanges ?? [];
    const external = [...port.loadBalancerVIPs, ...port.externalIPs];
    const inside = networks.length === 0 ? '' : [port.clusterIP, ...external].map(text => Number(isIn(text, networks))).join('');
    const own = external.map(text => Number(hostIPs.includes(text))).join('');
    if (given.length === 0) return `${inside} ${own}`;
    const ranges = given.flatMap(text => parseCidr(text.trim()) ?? []);
    const kinds = ranges.map(range => `${Number(range.family === family)}${Number(range.prefix === 0)}`);
    return `${inside} ${own} ${[...new Set(kinds)].sort().join()} ${[...known, ...external].map(text => Number(isIn(text, ranges))).join('')}`;
  };
}

const noNetwork = {family: 'IPv4', base: 0n, prefix: 32, text: '0.0.0.0/32'} as const;

/** Where an endpoint is: here, on another node, on none that is known, at an address of this node, or on the node that kube-proxy runs as. */
function placing({name, hostIPs}: NodeFacts, {nodeName}: ProxyConfig): (endpoint: Endpoint) => number {
  const runsAs = nodeName.value;
  return ({nodeName, address}) => {
    if (nodeName === name) return hostIPs.includes(address) ? 1 : 0;
    return nodeName === null ? 2 : nodeName === runsAs ? 3 : 4;
  };
}

/** The kinds of endpoints, usually one or two; all endpoints are looked at on each node. */
function classesOf({set}: PortEntry, place: (endpoint: Endpoint) => number): string {
  let plain = 0;
  const others = new Set<string>();
  for (const endpoint of set.endpoints) {
    if (isPlain(endpoint)) plain |= 1 << place(endpoint);
    else if (isUsed(endpoint)) others.add(classOf(endpoint, place));
  }
  return others.size === 0 ? String(plain) : `${plain} ${[...others].sort().join()}`;
}

/** Others are neither promised nor written by any version. */
function isUsed({ready, serving}: Endpoint): boolean {
  return ready || serving;
}

function isPlain({ready, zoneHints, nodeHints}: Endpoint): boolean {
  return ready && zoneHints === null && nodeHints === null;
}

function classOf(endpoint: Endpoint, place: (endpoint: Endpoint) => number): string {
  const {ready, serving, terminating, zoneHints, nodeHints} = endpoint;
  return JSON.stringify([place(endpoint), ready, serving, terminating, zoneHints, nodeHints]);
}

/** A cluster of one Service port, with an endpoint of each kind. */
export function smallView({view, config, facts, api}: PromiseNode, {first: {port, set}}: Shape): ClusterView {
  const {spec = {}} = port.object;
  const place = placing(facts, config);
  const kept = new Set(
    uniqueBy(set.endpoints.filter(isUsed), endpoint => classOf(endpoint, place)).map(({sliceEndpoint}) => sliceEndpoint),
  );
  const isOwn = (given: {readonly name?: string | null; readonly protocol?: string}): boolean =>
    (given.name ?? '') === port.portName && (given.protocol ?? 'TCP') === port.protocol;
  const slices = view.slicesOf(serviceKey(port), proxyVersion(config)).map(slice => ({
    ...slice,
    ports: (slice.ports ?? []).filter(isOwn),
    endpoints: (slice.endpoints ?? []).filter(endpoint => kept.has(endpoint)),
  }));
  const service = {...port.object, spec: {...spec, ports: (spec.ports ?? []).filter(isOwn)}};
  return new ClusterView({...api, services: [service], endpointSlices: slices, endpoints: null});
}

/** The node with the addresses at which the API promises its node ports; null where the Node was not read. */
export function promisedNode({api, config, facts}: PromiseNode): NodeFacts | null {
  const object = nodeObject(api, facts.name);
  if (object === undefined) return null;
  const isInternal = (text: string): boolean =>
    object.status?.addresses?.some(({address, type}) => address === text && type === 'InternalIP') ?? false;
  // An address that a cloud translates is on no interface. In nftables mode the primary addresses are those of node ports.
  const own = facts.hostIPs.filter(text => (facts.allAddresses ? facts.addresses.includes(text) : isInternal(text)));
  const asked = config.mode.value === 'nftables' ? uniqueBy(own, familyOf) : own;
  // What happens to a packet outside of kube-proxy's rules is not promised by what it writes.
  const written = {...facts, network: noNetworkFacts, onLink: []};
  const podCIDRs = holdsItsPods(api, facts) ? facts.podCIDRs : [];
  return {...written, hostIPs: asked, addresses: [...asked, '127.0.0.1', '::1'], podCIDRs};
}

/** Some networks give pods addresses of their own choice. */
function holdsItsPods(api: ApiObjects, {name, podCIDRs}: NodeFacts): boolean {
  const networks = podCIDRs.flatMap(text => parseCidr(text) ?? []);
  return podsOnNode(api, name).every(({spec, status}) => {
    const address = spec?.hostNetwork === true ? null : parseAddress(status?.podIP ?? '');
    return address === null || networks.some(network => contains(network, address));
  });
}
