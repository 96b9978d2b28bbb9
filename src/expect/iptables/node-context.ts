import {contains, hostCidr, parseAddress, parseCidr} from '../../model/address.ts';
import type {Family} from '../../model/family.ts';
import {hostIP, type NodeFacts} from '../../model/node-facts.ts';
import type {KubeProxyVersion, ProxyConfig} from '../../model/proxy-config.ts';
import {excludesLocalhost, knowsNodeIP} from './versions.ts';

/** How kube-proxy tells traffic of this node's pods from other traffic. Follows `getLocalDetectors`. */
export type LocalDetector =
  | {readonly kind: 'cidr'; readonly cidr: string}
  | {readonly kind: 'bridge'; readonly name: string}
  | {readonly kind: 'prefix'; readonly name: string}
  | {readonly kind: 'none'};

/** All that the text of one family's rules on one node depends on, besides Services and endpoints. */
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
  /** CIDRs of this family; null means all addresses. */
  readonly nodePortCIDRs: readonly string[] | null;
  readonly invalidDrop: boolean;
  /** The address that source ranges are held against. */
  readonly nodeIP: string;
  /** Counters by nfacct are in use on the node; only the node itself can tell. */
  readonly nfacct: boolean;
}

export interface Seen {
  readonly nfacct: boolean;
}

export function nodeContext(family: Family, config: ProxyConfig, facts: NodeFacts, seen: Seen): NodeContext {
  const version = config.version.value;
  const nodePortCIDRs = nodePortAddresses(family, config, facts);
  const loopback = family === 'IPv4' && allowsLoopback(nodePortCIDRs);
  const localhostNodePorts = loopback && (!excludesLocalhost(version) || config.localhostNodePorts.value);
  return {
    ...{family, version, facts, nodePortCIDRs, localhostNodePorts},
    gates: config.featureGates.value,
    detector: localDetector(family, config, facts),
    masqueradeAll: config.masqueradeAll.value,
    mark: `0x${(2 ** config.masqueradeBit.value).toString(16)}`,
    invalidDrop: !(config.tcpBeLiberal.value && version.minor >= 29),
    nodeIP: nodeIPForRanges(family, config, facts),
    nfacct: seen.nfacct,
  };
}

function localDetector(family: Family, config: ProxyConfig, facts: NodeFacts): LocalDetector {
  switch (config.detectLocalMode.value) {
    case 'ClusterCIDR':
      return cidrDetector(config.clusterCIDRs.value, family);
    case 'NodeCIDR':
      return cidrDetector(facts.podCIDRs, family);
    case 'BridgeInterface':
      return config.bridgeInterface.value === '' ? {kind: 'none'} : {kind: 'bridge', name: config.bridgeInterface.value};
    case 'InterfaceNamePrefix':
      return config.interfaceNamePrefix.value === '' ? {kind: 'none'} : {kind: 'prefix', name: config.interfaceNamePrefix.value};
  }
}

function cidrDetector(cidrs: readonly string[], family: Family): LocalDetector {
  const cidr = cidrs.map(text => parseCidr(text.trim())).find(parsed => parsed?.family === family);
  return cidr === undefined || cidr === null ? {kind: 'none'} : {kind: 'cidr', cidr: cidr.text};
}

/** A family without a CIDR of its own gets all addresses. Follows `NewNodePortAddresses`. */
function nodePortAddresses(family: Family, config: ProxyConfig, facts: NodeFacts): readonly string[] | null {
  const given = config.nodePortAddresses.value;
  if (given.length === 1 && given[0] === 'primary') {
    // The addresses that kube-proxy takes for the node's, its bindAddress before the Node's; loopback addresses do not count.
    const own = nodeIPForRanges(family, config, facts);
    return isLoopback(own) ? null : [hostCidr(own, family)];
  }
  const parsed = given.map(text => parseCidr(text)).filter(cidr => cidr?.family === family);
  if (parsed.length === 0 || parsed.some(cidr => cidr?.prefix === 0)) return null;
  return parsed.map(cidr => cidr?.text ?? '');
}

/** Some IPv4 CIDR lies inside 127.0.0.0/8 or holds 127.0.0.0. Follows `ContainsIPv4Loopback`. */
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
  const bind = parseAddress(config.bindAddress.value);
  const unspecified = family === 'IPv4' ? '0.0.0.0' : '::';
  if (bind !== null && bind.value !== 0n && bind.family === family) return bind.text;
  const primary = (facts.hostIPs[0]?.includes(':') ?? false) === (family === 'IPv6');
  if (!knowsNodeIP(config.version.value, primary)) return unspecified;
  return hostIP(facts, family) ?? (family === 'IPv4' ? '127.0.0.1' : '::1');
}

/** The node's addresses that its node ports answer on: null stands for every local address. */
export function nodePortDestinations(context: NodeContext): readonly string[] | null {
  const {nodePortCIDRs, facts, family} = context;
  if (nodePortCIDRs === null) return null;
  const cidrs = nodePortCIDRs.map(text => parseCidr(text));
  return [...new Set(facts.addresses)].filter(text => {
    const address = parseAddress(text);
    if (address === null || address.family !== family) return false;
    if (isLoopback(address.text) && excludesLocalhost(context.version) && (family === 'IPv6' || !context.localhostNodePorts)) return false;
    return cidrs.some(cidr => cidr !== null && contains(cidr, address));
  });
}

export function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.');
}
