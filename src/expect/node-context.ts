import {contains, families, type Family, hostCidr, parseAddress, parseCidr, bitsOf, canonicalAddress, familyOf} from '../model/address.ts';
import {hostIP, type NodeFacts} from '../model/node/node-facts.ts';
import type {KubeProxyVersion, ProxyConfig} from '../model/proxy-config.ts';
import type {ServicePort} from '../model/service-port.ts';
import {once, heldIn} from '../model/once.ts';
import {nodeNamesByAddress} from './api-index.ts';
import * as versions from './iptables/iptables-versions.ts';
import type {NodeObject, PodObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';

/** Assumptions about kube-proxy that contradict the API. */
export interface Hypothesis {
  readonly nodeName?: string;
  readonly zone?: string | null;
  readonly detector?: LocalDetector;
  readonly masqueradeAll?: boolean;
  /** For a Service port with duplicate endpoints: which of the possible lists kube-proxy built. */
  readonly picks?: ReadonlyMap<ServicePort, number>;
}

/** How kube-proxy distinguishes traffic of this node's pods from other traffic. Follows `getLocalDetectors`. */
type LocalDetector =
  | {readonly kind: 'cidr'; readonly cidr: string}
  /** A bridge, or all interfaces of a prefix: as iptables writes them, with `+` after a prefix. */
  | {readonly kind: 'interface'; readonly name: string}
  | {readonly kind: 'none'};

/** How rules tell pods from other clients of cluster IPs; `all` where they masquerade every client (masqueradeAll). */
export type SeenDetector = LocalDetector | 'all';

/** By an interface, or by the beginning of names before `+` of iptables or `*` of nftables. */
export function interfaceDetector(name: string): LocalDetector {
  return {kind: 'interface', name: name.replace(/\*$/, '+')};
}

/** Everything that one family's rules on one node depend on in any proxy mode, besides Services and endpoints. */
export interface NodeContext {
  readonly family: Family;
  readonly version: KubeProxyVersion;
  readonly gates: Readonly<Record<string, boolean>>;
  readonly facts: NodeFacts;
  readonly detector: LocalDetector;
  readonly masqueradeAll: boolean;
  /** The masquerade mark as iptables-save prints it, such as `0x4000`. */
  readonly mark: string;
  readonly localhostNodePorts: boolean;
  /** Node ports do not answer on loopback addresses, unless `localhostNodePorts` is set. */
  readonly excludesLoopback: boolean;
  /**
   * In nftables mode with the gate KubeProxyNFTablesLocalhostNodePorts: whether kube-proxy itself listens on the loopback address for
   * TCP node ports. Undefined without the gate: node ports on loopback addresses are not handled at all.
   */
  readonly listensOnLocalhost?: boolean;
  /** CIDRs of this family; null means all addresses. */
  readonly nodePortCIDRs: readonly string[] | null;
  readonly invalidDrop: boolean;
  /** In nftables mode: the networks whose unallocated addresses kube-proxy drops packets to. Left out where they are not known. */
  readonly serviceRanges?: readonly string[];
  /** KUBE-POSTROUTING clears the mark before it masquerades. */
  readonly clearsMark: boolean;
  /** The node's address that source ranges are compared with. */
  readonly nodeIP: string;
  /** The node counts with nfacct; only the node itself shows it. */
  readonly nfacct: boolean;
}

/** The node's addresses on which its node ports answer: null stands for every local address. */
export const nodePortDestinations: (context: NodeContext) => readonly string[] | null = once((context: NodeContext) => {
  const {nodePortCIDRs, facts, family} = context;
  if (nodePortCIDRs === null) return null;
  const cidrs = nodePortCIDRs.map(text => parseCidr(text));
  return [...new Set(facts.addresses)].filter(text => {
    const address = parseAddress(text);
    if (address === null || address.family !== family) return false;
    if (isLoopback(address.text) && context.excludesLoopback && (family === 'IPv6' || !context.localhostNodePorts)) return false;
    return cidrs.some(cidr => cidr !== null && contains(cidr, address));
  });
});

export function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.');
}

/** Follows `getLocalDetectors`. */
export function localDetector(family: Family, config: ProxyConfig, facts: NodeFacts): LocalDetector {
  switch (config.detectLocalMode.value) {
    case 'ClusterCIDR':
      return cidrDetector(config.clusterCIDRs.value, family);
    case 'NodeCIDR':
      return cidrDetector(facts.podCIDRs, family);
    case 'BridgeInterface':
      return config.bridgeInterface.value === '' ? {kind: 'none'} : interfaceDetector(config.bridgeInterface.value);
    case 'InterfaceNamePrefix':
      return config.interfaceNamePrefix.value === '' ? {kind: 'none'} : interfaceDetector(`${config.interfaceNamePrefix.value}+`);
  }
}

function cidrDetector(cidrs: readonly string[], family: Family): LocalDetector {
  const cidr = cidrs.map(text => parseCidr(text.trim())).find(parsed => parsed?.family === family);
  return cidr === undefined || cidr === null ? {kind: 'none'} : {kind: 'cidr', cidr: cidr.text};
}

/**
 * `nodePortAddresses` with its keywords replaced by CIDRs of both families. Up to 1.36 `primary` is the only entry if it is used; 1.37 adds
 * `localhost` and `all`, and allows several. `nodeIP` gives the node's address in a family as kube-proxy sees it: a loopback address if it
 * has none. Follows `platformApplyDefaults` and `NewNodePortAddresses`.
 */
export function expandNodePortAddresses(
  addresses: readonly string[],
  version: KubeProxyVersion,
  nodeIP: (family: Family) => string,
): readonly string[] {
  if (version.minor < 37 && addresses[0] !== 'primary') return addresses;
  return addresses.flatMap(text => {
    if (text === 'primary') return families.flatMap(family => (isLoopback(nodeIP(family)) ? [] : [hostCidr(nodeIP(family), family)]));
    if (text === 'localhost') return ['127.0.0.0/8', '::1/128'];
    return text === 'all' ? ['0.0.0.0/0', '::/0'] : [text];
  });
}

/** What only the node shows; null if nothing is known. */
export interface SeenSettings {
  readonly nfacct: boolean;
  readonly clearsMark: boolean | null;
  readonly dropsInvalid: boolean | null;
}

export function nodeContext(family: Family, config: ProxyConfig, facts: NodeFacts, seen: SeenSettings): NodeContext {
  const version = config.version.value;
  const nodePortCIDRs = nodePortAddresses(family, config, facts);
  const loopback = family === 'IPv4' && allowsLoopback(nodePortCIDRs);
  const localhostNodePorts = loopback && (!versions.excludesLocalhost(version) || config.localhostNodePorts.value);
  return {
    family,
    version,
    facts,
    nodePortCIDRs,
    localhostNodePorts,
    gates: config.featureGates.value,
    excludesLoopback: versions.excludesLocalhost(version),
    detector: localDetector(family, config, facts),
    masqueradeAll: config.masqueradeAll.value,
    mark: `0x${(2 ** config.masqueradeBit.value).toString(16)}`,
    invalidDrop:
      versions.dropsInvalid(version, seen.dropsInvalid) && !(config.tcpBeLiberal.value && versions.skipsInvalidDropWhenLiberal(version)),
    clearsMark: versions.clearsMasqueradeMark(version, seen.clearsMark),
    nodeIP: nodeIPForRanges(family, config, facts),
    nfacct: seen.nfacct,
  };
}

/** A family without a CIDR of its own uses all addresses. Follows `NewNodePortAddresses`. */
function nodePortAddresses(family: Family, config: ProxyConfig, facts: NodeFacts): readonly string[] | null {
  const expanded = expandNodePortAddresses(config.nodePortAddresses.value, config.version.value, of => nodeIPForRanges(of, config, facts));
  const parsed = expanded.map(text => parseCidr(text)).filter(cidr => cidr?.family === family);
  if (parsed.length === 0 || parsed.some(cidr => cidr?.prefix === 0)) return null;
  return parsed.map(cidr => cidr?.text ?? '');
}

/** Some IPv4 CIDR is inside 127.0.0.0/8 or contains 127.0.0.0. Follows `ContainsIPv4Loopback`. */
function allowsLoopback(cidrs: readonly string[] | null): boolean {
  if (cidrs === null) return true;
  const loopback = parseCidr('127.0.0.0/8');
  const start = parseAddress('127.0.0.0');
  return cidrs.some(text => {
    const cidr = parseCidr(text);
    if (cidr === null || loopback === null || start === null) return false;
    return contains(cidr, start) || contains(loopback, {...start, value: cidr.base});
  });
}

function nodeIPForRanges(family: Family, config: ProxyConfig, facts: NodeFacts): string {
  const primary = (facts.hostIPs[0]?.includes(':') ?? false) === (family === 'IPv6');
  if (boundTo(family, config) !== null || versions.knowsNodeIP(config.version.value, primary)) return nodeIP(family, config, facts);
  return family === 'IPv4' ? '0.0.0.0' : '::';
}

/** The address that kube-proxy uses as the node's: its bindAddress, otherwise the Node's, otherwise the loopback address. */
export function nodeIP(family: Family, config: ProxyConfig, facts: NodeFacts): string {
  return boundTo(family, config) ?? hostIP(facts, family) ?? (family === 'IPv4' ? '127.0.0.1' : '::1');
}

function boundTo(family: Family, {bindAddress}: ProxyConfig): string | null {
  const bind = parseAddress(bindAddress.value);
  return bind !== null && bind.value !== 0n && bind.family === family ? bind.text : null;
}

export function podCIDRsOf(node: NodeObject | undefined): readonly string[] {
  return node?.spec?.podCIDRs ?? (node?.spec?.podCIDR === undefined ? [] : [node.spec.podCIDR]);
}

export function addressesOfPod({status}: PodObject): readonly string[] {
  return [...(status?.podIPs ?? []).flatMap(({ip}) => ip ?? []), ...(status?.podIP === undefined ? [] : [status.podIP])];
}

type PodPort = NonNullable<NonNullable<NonNullable<PodObject['spec']>['containers']>[number]['ports']>[number];

/** The ports that its containers declare. */
export function portsOfPod({spec}: Pick<PodObject, 'spec'>): readonly PodPort[] {
  return (spec?.containers ?? []).flatMap(({ports}) => ports ?? []);
}

/** Whether its addresses are its own, and still in use. */
export function hasOwnAddress({spec, status}: PodObject): boolean {
  return spec?.hostNetwork !== true && status?.phase !== 'Succeeded' && status?.phase !== 'Failed';
}

/** The addresses of all pods that are not in the network of their node. */
export const addressesOfPods = once(
  ({pods}: ApiObjects) => new Set((pods ?? []).filter(hasOwnAddress).flatMap(addressesOfPod).map(canonicalAddress)),
);

/** The addresses of pods by their node, as pods and EndpointSlices have them; those in the network of a node are left out. */
export function podsByNode(api: ApiObjects, family: Family): ReadonlyMap<string, ReadonlySet<string>> {
  return (family === 'IPv4' ? podsOfIPv4 : podsOfIPv6)(api);
}

const podsOfIPv4 = once((api: ApiObjects) => readPods(api, 'IPv4'));
const podsOfIPv6 = once((api: ApiObjects) => readPods(api, 'IPv6'));

function readPods(api: ApiObjects, family: Family): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>();
  eachPod(api, (address, node) => {
    if (familyOf(address) === family) heldIn(found, node, () => new Set()).add(address);
  });
  return found;
}

/** Some of the addresses of `podsByNode` again and again, and of both families. */
export function eachPod(api: ApiObjects, use: (address: string, node: string) => void): void {
  const {pods, endpointSlices} = api;
  const ofNodes = nodeNamesByAddress(api);
  const note = (node: string | null | undefined, address: string): void => {
    if (typeof node === 'string' && !ofNodes.has(address)) use(address, node);
  };
  for (const pod of (pods ?? []).filter(hasOwnAddress)) for (const address of addressesOfPod(pod)) note(pod.spec?.nodeName, address);
  for (const {endpoints} of endpointSlices ?? [])
    for (const {nodeName, addresses, targetRef} of endpoints ?? [])
      if (targetRef?.kind === 'Pod') for (const address of addresses ?? []) note(nodeName, address);
}

/**
 * Who is here where the Node has no podCIDR of a family, because the network plugin gives out addresses: the pods and endpoints of the node,
 * and each host that has a route of its own into another network namespace.
 */
export function ownPods(
  {name, podCIDRs, addresses, network, primaryInterface}: NodeFacts,
  api: ApiObjects,
  family: Family,
): readonly string[] {
  if (podCIDRs.some(text => parseCidr(text)?.family === family)) return [];
  const elsewhere = new Set((network.links ?? []).filter(({isPeerElsewhere}) => isPeerElsewhere).map(link => link.name));
  const bits = bitsOf(family);
  const routed = (network.routes[family] ?? []).flatMap(({kind, to, table, hops: [hop, ...others]}) => {
    const dev = hop?.gateway === null && others.length === 0 ? hop.dev : null;
    const isOfPod = kind === 'unicast' && to.prefix === bits && (table === 'main' || table === '254');
    return isOfPod && dev !== null && dev !== primaryInterface && elsewhere.has(dev) ? [to.text.replace(/\/\d+$/, '')] : [];
  });
  const own = new Set(addresses);
  return [...new Set([...(podsByNode(api, family).get(name) ?? []), ...routed])].filter(address => !own.has(address));
}
