import {type FeatureGates, isGateOn, type KubeProxyVersion} from '../../model/proxy-config.ts';
import {byGate, hasChange, ruleChanges, since, upTo} from '../patch-releases.ts';

/** 1.24: KUBE-EXT and KUBE-SVL took the place of KUBE-XLB (kubernetes#109060). */
export const hasExternalChains = since(24);

/** 1.34: a source range with prefix 0 means that there are no ranges. */
export const zeroRangeMeansAll = since(34);

/** 1.29: the external traffic policy of a ClusterIP Service with external IPs counts. */
export const honorsPolicyOfExternalIPs = since(29);

/** `ipMode: Proxy` of a load-balancer address: gate LoadBalancerIPMode, off in 1.29, on from 1.30. */
export const honorsIPMode = byGate('LoadBalancerIPMode', {from: 29, on: 30, locked: 35});

/** 1.36: the gate AllowServiceExternalIPs can switch external IPs off; their chains are written anyway. */
export function writesExternalIPs(version: KubeProxyVersion, gates: FeatureGates): boolean {
  return version.minor < 36 || isGateOn(gates, 'AllowServiceExternalIPs', true);
}

/** `internalTrafficPolicy: Local`: gate ServiceInternalTrafficPolicy, off in 1.21, on from 1.22. */
export const honorsInternalPolicy = byGate('ServiceInternalTrafficPolicy', {from: 21, on: 22});

/** 1.36: one label selector for Services and slices became two; see `isHidden` of Services and of slices. */
export const hasSharedSelector = upTo(35);

/** Up to 1.30 hashes, sort order and comments use addresses as spelled in the slice. */
export const keepsAddressSpelling = upTo(30);

/** Up to 1.30 the endpoints of one slice are sorted by address before they are merged. */
export const sortsWithinSlice = upTo(30);

/** Up to 1.21 endpoints of a Service port are merged by address alone. */
export const mergesByAddress = upTo(21);

/** 1.36: of two endpoints with one address, one that is not terminating wins; before, one on this node. */
export const prefersNotTerminating = since(36);

/** Up to 1.21 kube-proxy can read Endpoints, not slices: gate EndpointSliceProxying, on from 1.19; none before 1.17. */
export function readsEndpoints(version: KubeProxyVersion, gates: FeatureGates): boolean {
  return version.minor <= 21 && (version.minor < 17 || !isGateOn(gates, 'EndpointSliceProxying', version.minor >= 19));
}

/** A Service without ready endpoints falls back on terminating ones: gate ProxyTerminatingEndpoints, on from 1.26. */
export const usesTerminatingEndpoints = byGate('ProxyTerminatingEndpoints', {from: 22, on: 26, locked: 28});

/** Hints that name nodes: gate PreferSameTrafficDistribution, off in 1.33, on from 1.34. */
export const honorsNodeHints = byGate('PreferSameTrafficDistribution', {from: 33, on: 34, locked: 35});

/**
 * Whether a Service's zone hints are used: gate TopologyAwareHints (on from 1.24, fixed from 1.33), and an annotation of the
 * Service. From 1.31 the hints alone decide (gate ServiceTrafficDistribution, off in 1.30).
 */
export function honorsZoneHints(version: KubeProxyVersion, gates: FeatureGates, annotations: Readonly<Record<string, string>>): boolean {
  const {minor} = version;
  if (minor >= 33) return true;
  if (minor < 21 || !isGateOn(gates, 'TopologyAwareHints', minor >= 24)) return false;
  if (minor >= 30 && isGateOn(gates, 'ServiceTrafficDistribution', minor >= 31)) return true;
  const hints = annotations['service.kubernetes.io/topology-aware-hints'];
  if (minor >= 27) return !['', 'disabled', 'Disabled', undefined].includes(hints ?? annotations['service.kubernetes.io/topology-mode']);
  return hints === 'auto' || (hints === 'Auto' && hasChange(version, ruleChanges.hintsWithCapital));
}

/** 1.23: the hints of endpoints that are not ready do not matter (kubernetes#106507). */
export const needsHintsOfReadyOnly = since(23);

/** Up to 1.19 the name of a Service port ends with a colon when the port has no name, in comments and in hashes. */
export const endsUnnamedPortWithColon = upTo(19);

/** 1.22.0 to 1.22.3 in iptables mode: endpoints that are not ready count, and have chains of their own. */
export function countsUnreadyEndpoints(version: KubeProxyVersion): boolean {
  return version.minor === 22 && !hasChange(version, ruleChanges.readyEndpointsCount);
}

/** Up to 1.20 kube-proxy knows, counts and merges only ready endpoints. */
export const knowsReadyEndpointsOnly = upTo(20);

/** `spec.topologyKeys`, 1.17 to 1.21: gate ServiceTopology, off by default; only if slices are read. */
export function honorsTopologyKeys(version: KubeProxyVersion, gates: FeatureGates): boolean {
  if (version.minor < 17 || version.minor > 21 || readsEndpoints(version, gates)) return false;
  return isGateOn(gates, 'ServiceTopology', false);
}

/** Up to 1.6 an annotation sets the Local traffic policy: there is no field for it. */
export const readsPolicyAnnotation = upTo(6);
