import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import {byGate, since, upTo} from '../patch-releases.ts';

// What differs between versions of kube-proxy in iptables mode: one function for each difference, each naming what upstream changed.
// Known from the sources: 1.5, 1.11, 1.13, 1.14, 1.16 to 1.18, 1.20 to 1.23, 1.25 and later; see `neighborsOf`.

/**
 * 1.25: packets without a local endpoint are dropped in the filter table; 1.24 marks them with KUBE-MARK-DROP at the end of KUBE-SVL
 * (kubernetes#106497).
 */
export const dropsInFilter = since(25);

/** 1.25: source ranges end in KUBE-PROXY-FIREWALL. */
export const hasProxyFirewall = since(25);

/** 1.27: a KUBE-FW chain ends in a rule without a target that only explains. */
export const explainsFirewallChain = since(27);

/** 1.27: kube-proxy writes KUBE-FIREWALL itself; before that the kubelet does (kubernetes#114472). */
export const writesKubeFirewall = since(27);

/** 1.26: node ports on loopback addresses can be switched off, and IPv6 never has them. */
export const excludesLocalhost = since(26);

/** Up to 1.26, node-port rules of Services are left out when no local address is in nodePortAddresses. */
export const nodePortsNeedAddress = upTo(26);

/** 1.22: the masquerade rules of a Service moved from KUBE-SERVICES and KUBE-NODEPORTS into its KUBE-SVC chain. */
export const masqueradesInServiceChain = since(22);

/** 1.23: one conntrack rule in KUBE-FORWARD in place of a source and a destination rule. */
export const hasSingleConntrackRule = since(23);

/** Up to 1.22, the rules of a KUBE-XLB chain are commented `Balancing rule N for …`. */
export const numbersBalancingRules = upTo(22);

/** 1.29: no rule drops INVALID packets when nf_conntrack_tcp_be_liberal is on (kubernetes#120412). */
export const skipsInvalidDropWhenLiberal = since(29);

/** 1.31: counters by nfacct, where the kernel has them (kubernetes#122812). */
export const countsWithNfacct = since(31);

/** Up to 1.24 kube-proxy creates KUBE-MARK-DROP if it is missing; the kubelet writes its rules. */
export const ensuresMarkDrop = upTo(24);

/**
 * Up to 1.27, a kube-proxy of both families compares source ranges with its bind address, and one of a single family with the Node's
 * address; 1.28 with the Node's for one family.
 */
export function knowsNodeIP(version: KubeProxyVersion, primary: boolean): boolean {
  return version.minor >= 29 || version.minor <= 20 || (version.minor === 28 && primary);
}

/** 1.17: probabilities are written with ten decimals; before, with five (kubernetes#83498). */
export function decimalsOfProbability(version: KubeProxyVersion): 5 | 10 {
  return version.minor >= 17 ? 10 : 5;
}

/** 1.16: an empty chain in each table shows kube-proxy that the table was flushed. */
export const hasCanary = since(16);

/** 1.16: `--random-fully`, if iptables supports it. */
export const masqueradesRandomly = since(16);

/**
 * 1.19: KUBE-POSTROUTING returns packets without the mark, and clears the mark before it masquerades. Late patches of earlier versions have
 * the change, so for these the node decides (`seen`; null if nothing is known).
 */
export function clearsMasqueradeMark(version: KubeProxyVersion, seen: boolean | null): boolean {
  return version.minor >= 19 || (seen ?? (version.minor === 18 && (version.patch ?? 0) >= 6));
}

/** 1.15: packets in state INVALID are dropped (kubernetes#74840). Some patches of 1.11 to 1.14 do so too: for these the node decides. */
export function dropsInvalid(version: KubeProxyVersion, seen: boolean | null): boolean {
  return version.minor >= 15 || (hasForwardChain(version) && (seen ?? version.minor === 14));
}

/** 1.9: the chain KUBE-FORWARD (kubernetes#52569). */
export const hasForwardChain = since(9);

/** 1.11: external addresses and node ports are rejected in KUBE-EXTERNAL-SERVICES; 1.5 rejects cluster IPs only. */
export const refusesExternalEntries = since(11);

/** 1.11: only new connections jump to the chains of table filter. */
export const hooksNewConnectionsOnly = since(11);

/** 1.14: forwarded packets jump to filter/KUBE-SERVICES, so that packets of pods are rejected too. */
export const refusesForwarded = since(14);

/** 1.14 to 1.19: packets to the node jump to filter/KUBE-SERVICES as well. */
export function hooksServicesFromInput(version: KubeProxyVersion): boolean {
  return version.minor >= 14 && version.minor <= 19;
}

/** 1.20: forwarded packets jump to KUBE-EXTERNAL-SERVICES. */
export const refusesForwardedToExternal = since(20);

/** 1.21: filter/KUBE-NODEPORTS accepts health checks of load balancers. */
export const acceptsHealthChecks = since(21);

/** 1.18: established connections are accepted for all addresses; before, only for those of the pod network. */
export const forwardsAllEstablished = since(18);

/** 1.11: a Service without endpoints has no rules in table nat; 1.5 sends its packets to an empty KUBE-SVC chain. */
export const leavesOutEmptyServices = since(11);

/** 1.5 writes both masquerade rules of a cluster IP if masqueradeAll and a pod network are set; later versions write one. */
export const masqueradesTwice = upTo(10);

/** Up to 1.20, all packets to an external IP are masqueraded, and matched only if they came from no bridge or the node has the address. */
export const excludesBridgedExternalIPs = upTo(20);

/** External IPs follow externalTrafficPolicy: gate ExternalPolicyForExternalIP, off up to 1.19, on from 1.20. */
export const appliesPolicyToExternalIPs = byGate('ExternalPolicyForExternalIP', {from: 18, on: 20, locked: 21});

/**
 * Where a load-balancer address without endpoints is rejected: in KUBE-SERVICES since 1.14, in KUBE-EXTERNAL-SERVICES since 1.20, nowhere
 * before.
 */
export function refusesLoadBalancerIn(version: KubeProxyVersion): 'KUBE-SERVICES' | 'KUBE-EXTERNAL-SERVICES' | null {
  if (version.minor >= 20) return 'KUBE-EXTERNAL-SERVICES';
  return version.minor >= 14 ? 'KUBE-SERVICES' : null;
}

/** 1.16: under the Local policy the node itself uses all endpoints, by two rules of KUBE-XLB. */
export const cutsShortLocalTraffic = since(16);

/** 1.11: session affinity applies under the Local policy, and the node's own packets to such a node port are masqueraded. */
export const keepsAffinityUnderLocalPolicy = since(11);

/** Up to 1.27 kube-proxy deletes KUBE-XLB chains that it does not need; later versions ignore them. */
export const deletesLocalChains = upTo(27);

/** 1.21: kube-proxy serves both families (gate IPv6DualStack, off before); up to then only the family of its node's address. */
export const servesBothFamilies = byGate('IPv6DualStack', {on: 21, locked: 23});

/**
 * Versions whose sources were not available: they have the rules of one of their neighbors. `bounds` are the candidates, the likelier one
 * first. If `certain` is false, neither need be right, and a node that matches neither is not checked.
 */
export function neighborsOf({minor}: KubeProxyVersion): {readonly bounds: readonly number[]; readonly certain: boolean} | null {
  if (minor >= 6 && minor <= 10) return {bounds: [11, 5], certain: false};
  if (minor === 12) return {bounds: [13, 11], certain: true};
  if (minor === 15) return {bounds: [15, 14, 16], certain: true};
  return minor === 19 ? {bounds: [19, 18, 20], certain: true} : null;
}
