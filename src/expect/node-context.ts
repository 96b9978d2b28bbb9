import {contains, parseAddress, parseCidr} from '../model/address.ts';
import {once} from './api-index.ts';
import type {Family} from '../model/family.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {KubeProxyVersion, ProxyConfig} from '../model/proxy-config.ts';

/** How kube-proxy distinguishes traffic of this node's pods from other traffic. Follows `getLocalDetectors`. */
export type LocalDetector =
  | {readonly kind: 'cidr'; readonly cidr: string}
  | {readonly kind: 'bridge'; readonly name: string}
  | {readonly kind: 'prefix'; readonly name: string}
  | {readonly kind: 'none'};

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
      return config.bridgeInterface.value === '' ? {kind: 'none'} : {kind: 'bridge', name: config.bridgeInterface.value};
    case 'InterfaceNamePrefix':
      return config.interfaceNamePrefix.value === '' ? {kind: 'none'} : {kind: 'prefix', name: config.interfaceNamePrefix.value};
  }
}

function cidrDetector(cidrs: readonly string[], family: Family): LocalDetector {
  const cidr = cidrs.map(text => parseCidr(text.trim())).find(parsed => parsed?.family === family);
  return cidr === undefined || cidr === null ? {kind: 'none'} : {kind: 'cidr', cidr: cidr.text};
}
