import {type KubeProxyVersion, newestKnownMinor, oldestKnownMinor} from '../../model/proxy-config.ts';

/**
 * What differs between the versions of kube-proxy: one function for each difference, each naming what upstream changed.
 * Known from the sources: 1.5, 1.11, 1.13, 1.14, 1.16 to 1.18, 1.20 to 1.23, 1.25 and later; see `neighboursOf`.
 */
type Gates = Readonly<Record<string, boolean>>;

/** 1.24: KUBE-EXT and KUBE-SVL took the place of KUBE-XLB (kubernetes#109060). */
export function hasExternalChains(version: KubeProxyVersion): boolean {
  return version.minor >= 24;
}

/** 1.25: packets without a local endpoint are dropped in the filter table, not marked with KUBE-MARK-DROP (kubernetes#106497). */
export function dropsInFilter(version: KubeProxyVersion): boolean {
  return version.minor >= 25;
}

/** 1.25: source ranges end in KUBE-PROXY-FIREWALL. */
export function hasProxyFirewall(version: KubeProxyVersion): boolean {
  return version.minor >= 25;
}

/** 1.27: a KUBE-FW chain ends in a rule without a target that only explains. */
export function explainsFirewallChain(version: KubeProxyVersion): boolean {
  return version.minor >= 27;
}

/** 1.27: kube-proxy writes KUBE-FIREWALL itself; before that the kubelet does (kubernetes#114472). */
export function writesKubeFirewall(version: KubeProxyVersion): boolean {
  return version.minor >= 27;
}

/** 1.26: node ports on loopback addresses can be switched off, and IPv6 never has them. */
export function excludesLocalhost(version: KubeProxyVersion): boolean {
  return version.minor >= 26;
}

/** Up to 1.26, node-port rules of Services are left out when no local address is in nodePortAddresses. */
export function nodePortsNeedAddress(version: KubeProxyVersion): boolean {
  return version.minor <= 26;
}

/** 1.22: the masquerade rules of a Service moved from KUBE-SERVICES and KUBE-NODEPORTS into its KUBE-SVC chain. */
export function masqueradesInServiceChain(version: KubeProxyVersion): boolean {
  return version.minor >= 22;
}

/** 1.23: one conntrack rule in KUBE-FORWARD in place of a source and a destination rule. */
export function hasSingleConntrackRule(version: KubeProxyVersion): boolean {
  return version.minor >= 23;
}

/** Up to 1.22, the rules of a KUBE-XLB chain are commented `Balancing rule N for …`. */
export function numbersBalancingRules(version: KubeProxyVersion): boolean {
  return version.minor <= 22;
}

/** 1.29: no rule drops INVALID packets when nf_conntrack_tcp_be_liberal is on (kubernetes#120412). */
export function skipsInvalidDropWhenLiberal(version: KubeProxyVersion): boolean {
  return version.minor >= 29;
}

/** 1.31: counters by nfacct, where the kernel has them (kubernetes#122812). */
export function countsWithNfacct(version: KubeProxyVersion): boolean {
  return version.minor >= 31;
}

/** Up to 1.24 kube-proxy makes sure that KUBE-MARK-DROP exists; the kubelet fills it. */
export function ensuresMarkDrop(version: KubeProxyVersion): boolean {
  return version.minor <= 24;
}

/** 1.34: a source range of a zero prefix means that there are no ranges. */
export function zeroRangeMeansAll(version: KubeProxyVersion): boolean {
  return version.minor >= 34;
}

/** 1.29: the external traffic policy of a ClusterIP Service with external IPs counts. */
export function honoursPolicyOfExternalIPs(version: KubeProxyVersion): boolean {
  return version.minor >= 29;
}

/** `ipMode: Proxy` of a load-balancer address: gate LoadBalancerIPMode, off in 1.29, on from 1.30. */
export function honoursIPMode(version: KubeProxyVersion, gates: Gates): boolean {
  return version.minor >= 29 && (version.minor >= 35 || gate(gates, 'LoadBalancerIPMode', version.minor >= 30));
}

/** 1.36: external IPs can be switched off by the gate AllowServiceExternalIPs; their chains are written all the same. */
export function writesExternalIPs(version: KubeProxyVersion, gates: Gates): boolean {
  return version.minor < 36 || gate(gates, 'AllowServiceExternalIPs', true);
}

/** `internalTrafficPolicy: Local`: gate ServiceInternalTrafficPolicy, off in 1.21, on from 1.22. */
export function honoursInternalPolicy(version: KubeProxyVersion, gates: Gates): boolean {
  return version.minor >= 21 && gate(gates, 'ServiceInternalTrafficPolicy', version.minor >= 22);
}

/** 1.36: one label selector for Services and slices became two; see `isHidden` of Services and of slices. */
export function hasSharedSelector(version: KubeProxyVersion): boolean {
  return version.minor <= 35;
}

/** Up to 1.30 addresses stand in hashes, sort order and comments as they are written in the slice. */
export function keepsAddressSpelling(version: KubeProxyVersion): boolean {
  return version.minor <= 30;
}

/** Up to 1.30 the endpoints of one slice are sorted by address before they are merged. */
export function sortsWithinSlice(version: KubeProxyVersion): boolean {
  return version.minor <= 30;
}

/** Up to 1.21 endpoints of a Service port are merged by address alone. */
export function mergesByAddress(version: KubeProxyVersion): boolean {
  return version.minor <= 21;
}

/** 1.36: of two endpoints with one address, one that is not terminating wins; before, one on this node. */
export function prefersNotTerminating(version: KubeProxyVersion): boolean {
  return version.minor >= 36;
}

/** Up to 1.21 kube-proxy can read Endpoints, not slices: gate EndpointSliceProxying, on from 1.19; none before 1.17. */
export function readsEndpoints(version: KubeProxyVersion, gates: Gates): boolean {
  return version.minor <= 21 && (version.minor < 17 || !gate(gates, 'EndpointSliceProxying', version.minor >= 19));
}

/** A Service without ready endpoints falls back on terminating ones: gate ProxyTerminatingEndpoints, on from 1.26. */
export function usesTerminatingEndpoints(version: KubeProxyVersion, gates: Gates): boolean {
  return version.minor >= 28 || (version.minor >= 22 && gate(gates, 'ProxyTerminatingEndpoints', version.minor >= 26));
}

/** Hints that name nodes: gate PreferSameTrafficDistribution, off in 1.33, on from 1.34. */
export function honoursNodeHints(version: KubeProxyVersion, gates: Gates): boolean {
  return version.minor >= 33 && (version.minor >= 35 || gate(gates, 'PreferSameTrafficDistribution', version.minor >= 34));
}

/**
 * Whether a Service's zone hints are used: gate TopologyAwareHints (on from 1.24, fixed from 1.33), and an annotation of the
 * Service. From 1.31 the hints alone decide (gate ServiceTrafficDistribution, off in 1.30).
 */
export function honoursZoneHints(version: KubeProxyVersion, gates: Gates, annotations: Readonly<Record<string, string>>): boolean {
  const {minor} = version;
  if (minor >= 33) return true;
  if (minor < 21 || !gate(gates, 'TopologyAwareHints', minor >= 24)) return false;
  if (minor >= 30 && gate(gates, 'ServiceTrafficDistribution', minor >= 31)) return true;
  const hints = annotations['service.kubernetes.io/topology-aware-hints'];
  if (minor >= 27) return !['', 'disabled', 'Disabled', undefined].includes(hints ?? annotations['service.kubernetes.io/topology-mode']);
  return hints === 'Auto' || hints === 'auto';
}

/**
 * Up to 1.27 a kube-proxy of both families compares source ranges with its bind address, one of a single family with the Node's;
 * 1.28 with the Node's for one family.
 */
export function knowsNodeIP(version: KubeProxyVersion, primary: boolean): boolean {
  return version.minor >= 29 || version.minor <= 20 || (version.minor === 28 && primary);
}

/** Whether the version is one whose rules are known; a newer one is judged by the newest known. */
export function isKnown(version: KubeProxyVersion): boolean {
  return version.minor >= oldestKnownMinor && version.minor <= newestKnownMinor;
}

/** Up to 1.19 the name of a Service port ends with a colon when the port has no name, in comments and in hashes. */
export function endsUnnamedPortWithColon(version: KubeProxyVersion): boolean {
  return version.minor <= 19;
}

/** 1.17: probabilities are written with ten decimals; before, with five (kubernetes#83498). */
export function decimalsOfProbability(version: KubeProxyVersion): 5 | 10 {
  return version.minor >= 17 ? 10 : 5;
}

/** 1.16: a chain without rules in each table shows kube-proxy that somebody flushed it. */
export function hasCanary(version: KubeProxyVersion): boolean {
  return version.minor >= 16;
}

/** 1.16: `--random-fully`, where iptables has it. */
export function masqueradesRandomly(version: KubeProxyVersion): boolean {
  return version.minor >= 16;
}

/**
 * 1.19: KUBE-POSTROUTING returns what is not marked and clears the mark before it masquerades. The change came to late patches
 * of versions before, so that there the node itself tells (`seen`; null when nothing is seen).
 */
export function clearsMasqueradeMark(version: KubeProxyVersion, seen: boolean | null): boolean {
  return version.minor >= 19 || (seen ?? (version.minor === 18 && version.patch >= 6));
}

/**
 * 1.15: packets in state INVALID are dropped (kubernetes#74840). Some patches of 1.11 to 1.14 do it too: there the node tells.
 */
export function dropsInvalid(version: KubeProxyVersion, seen: boolean | null): boolean {
  return version.minor >= 15 || (hasForwardChain(version) && (seen ?? version.minor === 14));
}

/** 1.11: the chain KUBE-FORWARD; it came between 1.5 and 1.11. */
export function hasForwardChain(version: KubeProxyVersion): boolean {
  return version.minor >= 11;
}

/** 1.11: external addresses and node ports are refused in KUBE-EXTERNAL-SERVICES; 1.5 refuses cluster IPs alone. */
export function refusesExternalEntries(version: KubeProxyVersion): boolean {
  return version.minor >= 11;
}

/** 1.11: only new connections are led to the chains of table filter. */
export function hooksNewConnectionsOnly(version: KubeProxyVersion): boolean {
  return version.minor >= 11;
}

/** 1.14: what the node forwards is led to filter/KUBE-SERVICES, so that pods are refused too. */
export function refusesForwarded(version: KubeProxyVersion): boolean {
  return version.minor >= 14;
}

/** 1.14 to 1.19: what comes in for the node is led to filter/KUBE-SERVICES as well. */
export function hooksServicesFromInput(version: KubeProxyVersion): boolean {
  return version.minor >= 14 && version.minor <= 19;
}

/** 1.20: what the node forwards is led to KUBE-EXTERNAL-SERVICES. */
export function refusesForwardedToExternal(version: KubeProxyVersion): boolean {
  return version.minor >= 20;
}

/** 1.21: filter/KUBE-NODEPORTS accepts health checks of load balancers. */
export function acceptsHealthChecks(version: KubeProxyVersion): boolean {
  return version.minor >= 21;
}

/** 1.18: established connections are forwarded whatever their addresses; before, those of the pods' network alone. */
export function forwardsAllEstablished(version: KubeProxyVersion): boolean {
  return version.minor >= 18;
}

/** 1.11: a Service without endpoints has no rules in table nat; 1.5 leads its packets to an empty KUBE-SVC chain. */
export function leavesOutEmptyServices(version: KubeProxyVersion): boolean {
  return version.minor >= 11;
}

/** 1.5 writes both masquerade rules of a cluster IP when masqueradeAll and a network of pods are given; later versions one. */
export function masqueradesTwice(version: KubeProxyVersion): boolean {
  return version.minor < 11;
}

/** Up to 1.20, packets to an external IP are all masqueraded, and taken only if no bridge brought them or the node has the address. */
export function excludesBridgedExternalIPs(version: KubeProxyVersion): boolean {
  return version.minor <= 20;
}

/** External IPs follow externalTrafficPolicy: gate ExternalPolicyForExternalIP, off up to 1.19, on from 1.20. */
export function appliesPolicyToExternalIPs(version: KubeProxyVersion, gates: Gates): boolean {
  return version.minor >= 21 || (version.minor >= 18 && gate(gates, 'ExternalPolicyForExternalIP', version.minor >= 20));
}

/** Where a load-balancer address without endpoints is refused: 1.14 in KUBE-SERVICES, 1.20 in KUBE-EXTERNAL-SERVICES, before nowhere. */
export function refusesLoadBalancerIn(version: KubeProxyVersion): 'KUBE-SERVICES' | 'KUBE-EXTERNAL-SERVICES' | null {
  if (version.minor >= 20) return 'KUBE-EXTERNAL-SERVICES';
  return version.minor >= 14 ? 'KUBE-SERVICES' : null;
}

/** 1.16: under Local policy the node itself uses all endpoints, by two rules of KUBE-XLB. */
export function cutsShortLocalTraffic(version: KubeProxyVersion): boolean {
  return version.minor >= 16;
}

/** 1.11: session affinity under Local policy, and the node's own packets to a node port of it are masqueraded. */
export function keepsAffinityUnderLocalPolicy(version: KubeProxyVersion): boolean {
  return version.minor >= 11;
}

/** Up to 1.20 only endpoints that are ready are known at all, counted or merged. */
export function knowsReadyEndpointsOnly(version: KubeProxyVersion): boolean {
  return version.minor <= 20;
}

/** Up to 1.27 kube-proxy deletes KUBE-XLB chains that it does not need; later ones do not know them. */
export function deletesLocalChains(version: KubeProxyVersion): boolean {
  return version.minor <= 27;
}

/** 1.21: kube-proxy serves both families (gate IPv6DualStack, off before); up to then that of its node's address alone. */
export function servesBothFamilies(version: KubeProxyVersion, gates: Gates): boolean {
  return version.minor >= 23 || gate(gates, 'IPv6DualStack', version.minor >= 21);
}

/** `spec.topologyKeys`, 1.17 to 1.21: gate ServiceTopology, off by default; only where slices are read. */
export function honoursTopologyKeys(version: KubeProxyVersion, gates: Gates): boolean {
  if (version.minor < 17 || version.minor > 21 || readsEndpoints(version, gates)) return false;
  return gate(gates, 'ServiceTopology', false);
}

/** Up to 1.6 an annotation asks for the Local traffic policy: there is no field for it. */
export function readsPolicyAnnotation(version: KubeProxyVersion): boolean {
  return version.minor <= 6;
}

/**
 * Versions whose sources were not at hand: the rules of one of their neighbours are theirs. `bounds` are those to try, the likelier
 * one first; where `certain` is false neither need be right, and a node that neither fits is not judged.
 */
export function neighboursOf({minor}: KubeProxyVersion): {readonly bounds: readonly number[]; readonly certain: boolean} | null {
  if (minor >= 6 && minor <= 10) return {bounds: [11, 5], certain: false};
  if (minor === 12) return {bounds: [13, 11], certain: true};
  if (minor === 15) return {bounds: [15, 14, 16], certain: true};
  return minor === 19 ? {bounds: [19, 18, 20], certain: true} : null;
}

function gate(gates: Gates, name: string, byDefault: boolean): boolean {
  return gates[name] ?? byDefault;
}
