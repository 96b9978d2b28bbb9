import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import {type FeatureGates, isGateOn} from '../cluster/proxy-versions.ts';

/** What differs between the versions of kube-proxy in nftables mode: one function for each difference. */

/** The first with an nftables mode. */
export const oldestNftMinor = 29;

/** 1.30: packets to ports that a cluster IP does not have are refused, in cluster-ips-check. */
export function checksClusterIPs(version: KubeProxyVersion): boolean {
  return version.minor >= 30;
}

/** 1.30: endpoints-check was split into one check of Services and one of node ports. */
export function splitsEndpointsCheck(version: KubeProxyVersion): boolean {
  return version.minor >= 30;
}

/** 1.30: a map firewall-ips and a chain for each Service port took the place of the sets firewall and firewall-allow. */
export function hasFirewallChains(version: KubeProxyVersion): boolean {
  return version.minor >= 30;
}

/** Up to 1.29 a chain drops INVALID packets in forwarding, unless nf_conntrack_tcp_be_liberal was set. */
export function dropsInvalid(version: KubeProxyVersion): boolean {
  return version.minor <= 29;
}

/** 1.33: the filter hooks run at priority 0, and those that must see the original destination in chains of their own. */
export function hasPreDNATChains(version: KubeProxyVersion): boolean {
  return version.minor >= 33;
}

/** 1.36: cluster-IP traffic is marked by one rule for all Services, the Service's chain translates, and hairpin-connections lists hairpins. */
export function rewritesInServiceChain(version: KubeProxyVersion): boolean {
  return version.minor >= 36;
}

/** Up to 1.33 the rule that marks cluster-IP traffic asks for protocol and port as well. */
export function marksByPort(version: KubeProxyVersion): boolean {
  return version.minor <= 33;
}

/** 1.33: interfaces of pods are matched by name, not by index. */
export function matchesInterfaceName(version: KubeProxyVersion): boolean {
  return version.minor >= 33;
}

/** 1.31: without nodePortAddresses, node ports answer on the Node's own addresses; 1.30 took the one of each family, 1.29 all. */
export function defaultNodePortAddresses(version: KubeProxyVersion): 'primary' | 'node-ip' | 'all' {
  if (version.minor >= 31) return 'primary';
  return version.minor === 30 ? 'node-ip' : 'all';
}

/** 1.33 to 1.35: at its start kube-proxy keeps the endpoint chains that it finds, even those that the one before it had emptied. */
export function mayKeepEmptyChains(version: KubeProxyVersion): boolean {
  return version.minor >= 33 && version.minor <= 35;
}

/** 1.37: one endpoint without affinity is a plain DNAT, without a map (kubernetes#140723). */
export function translatesSingleEndpointDirectly(version: KubeProxyVersion): boolean {
  return version.minor >= 37;
}

/** 1.37: comments of elements are truncated. Before, nft refused a longer one with its whole transaction (kubernetes#139516). */
export function truncatesComments(version: KubeProxyVersion): boolean {
  return version.minor >= 37;
}

/** Bytes in the comment of an element that nft accepts. */
export const maxCommentBytes = 128;

/** 1.37: kube-proxy itself handles node ports on loopback addresses: gate KubeProxyNFTablesLocalhostNodePorts, off by default. */
export function handlesLocalhostNodePorts(version: KubeProxyVersion, gates: FeatureGates): boolean {
  return version.minor >= 37 && isGateOn(gates, 'KubeProxyNFTablesLocalhostNodePorts', false);
}

/** 1.29 wrote no comments on tables, chains and sets with the nft of its image. */
export function commentsObjects(version: KubeProxyVersion): boolean {
  return version.minor >= 30;
}
