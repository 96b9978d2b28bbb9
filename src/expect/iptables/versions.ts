import {type KubeProxyVersion, newestKnownMinor} from '../../model/proxy-config.ts';

/** What differs between the versions of kube-proxy: one function for each difference, each naming what upstream changed. */
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
  return gate(gates, 'ServiceInternalTrafficPolicy', version.minor >= 22);
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

/** Up to 1.21 kube-proxy can be told to read Endpoints, not slices. */
export function readsEndpoints(version: KubeProxyVersion, gates: Gates): boolean {
  return version.minor <= 21 && !gate(gates, 'EndpointSliceProxying', version.minor >= 20);
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
  if (!gate(gates, 'TopologyAwareHints', minor >= 24)) return false;
  if (minor >= 30 && gate(gates, 'ServiceTrafficDistribution', minor >= 31)) return true;
  const hints = annotations['service.kubernetes.io/topology-aware-hints'];
  if (minor >= 27) return !['', 'disabled', 'Disabled', undefined].includes(hints ?? annotations['service.kubernetes.io/topology-mode']);
  return hints === 'Auto' || hints === 'auto';
}

/** Up to 1.27 a dual-stack kube-proxy compares source ranges with its bind address; 1.28 with the Node's for one family. */
export function knowsNodeIP(version: KubeProxyVersion, primary: boolean): boolean {
  return version.minor >= 29 || (version.minor === 28 && primary);
}

/** Whether the version is one whose rules are known; a newer one is judged by the newest known. */
export function isKnown(version: KubeProxyVersion): boolean {
  return version.minor <= newestKnownMinor;
}

function gate(gates: Gates, name: string, byDefault: boolean): boolean {
  return gates[name] ?? byDefault;
}
