import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import {byGate, ruleChanges, since, sinceChange, upTo} from '../patch-releases.ts';

/** The differences between versions of kube-proxy in nftables mode: one function for each. */

/** The first version with an nftables mode. */
export const oldestNftMinor = 29;

/** 1.30: cluster-ips-check rejects packets to ports that a cluster IP does not have. */
export const checksClusterIPs = since(30);

/** Packets to unallocated addresses of the Service range are dropped: gate MultiCIDRServiceAllocator, on from 1.33. */
export const dropsUnallocated = byGate('MultiCIDRServiceAllocator', {from: 30, on: 33, locked: 34});

/** 1.30: endpoints-check was split into one check of Services and one of node ports. */
export const splitsEndpointsCheck = since(30);

/** 1.30: a map firewall-ips and a chain for each Service port replaced the sets firewall and firewall-allow. */
export const hasFirewallChains = since(30);

/** Up to 1.29 a chain drops forwarded INVALID packets, unless nf_conntrack_tcp_be_liberal was set. */
export const nftDropsInvalid = upTo(29);

/** The filter hooks run at priority 0; chains of their own see the original destination. */
export const hasPreDNATChains = sinceChange(ruleChanges.preDNATChains);

/** 1.36: one rule marks cluster-IP traffic for all Services, the Service's chain translates, and hairpin-connections lists hairpins. */
export const rewritesInServiceChain = since(36);

/** Up to 1.33 the rule that marks cluster-IP traffic also matches protocol and port. */
export const marksByPort = upTo(33);

/** Interfaces of pods are matched by name, not by index. */
export const matchesInterfaceName = sinceChange(ruleChanges.interfaceNames);

/** Without nodePortAddresses, node ports answer on the Node's own addresses since 1.31, on one of each family in 1.30, on all in 1.29. */
export function defaultNodePortAddresses(version: KubeProxyVersion): 'primary' | 'node-ip' | 'all' {
  if (version.minor >= 31) return 'primary';
  return version.minor === 30 ? 'node-ip' : 'all';
}

/** 1.33 to 1.35: at startup kube-proxy keeps the endpoint chains that it finds, even if the previous one had emptied them. */
export function mayKeepEmptyChains(version: KubeProxyVersion): boolean {
  return version.minor >= 33 && version.minor <= 35;
}

/** 1.37: a single endpoint without affinity is a plain DNAT, without a map (kubernetes#140723). */
export const translatesSingleEndpointDirectly = since(37);

/** 1.37: comments of elements are truncated. Before, nft rejected the whole transaction because of a longer one (kubernetes#139516). */
export const truncatesComments = since(37);

/** The maximum length of an element's comment in nft, in bytes. */
export const maxCommentBytes = 128;

/** 1.37: kube-proxy itself handles node ports on loopback addresses: gate KubeProxyNFTablesLocalhostNodePorts, off by default. */
export const handlesLocalhostNodePorts = byGate('KubeProxyNFTablesLocalhostNodePorts', {from: 37});

/** 1.29 wrote no comments on tables, chains and sets with the nft of its image. */
export const commentsObjects = since(30);
