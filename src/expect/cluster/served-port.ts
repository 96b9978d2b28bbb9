import {families, type Family} from '../../model/address.ts';
import type {PortWithChains, ServedPort} from '../../model/endpoint.ts';
import type {NodeFacts} from '../../model/node/node-facts.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import {hasExternalEntry, type ServicePort, usesClusterEndpoints, usesLocalEndpoints} from '../../model/service-port.ts';
import type {Hypothesis} from '../node-context.ts';
import {categorizeEndpoints, type NodeTopology} from './categorize-endpoints.ts';
import {type ClusterView, proxyVersion} from './cluster-view.ts';
import {possibleEndpoints} from './endpoint-sets.ts';

export interface PortsInput {
  readonly view: ClusterView;
  readonly config: ProxyConfig;
  readonly facts: NodeFacts;
  readonly family: Family;
}

/** The node name that kube-proxy uses. */
export function nodeTopology({config, facts}: PortsInput, hypothesis: Hypothesis): NodeTopology {
  const zone = hypothesis.zone === undefined ? config.zone.value : hypothesis.zone;
  return {nodeName: hypothesis.nodeName ?? config.nodeName.value, zone, labels: facts.labels, proxy: proxyVersion(config)};
}

/** Every Service port of the family with the endpoints that this node's kube-proxy uses for it, in any proxy mode. */
export function portsOnNode({view, family}: PortsInput, topology: NodeTopology, picks: Hypothesis['picks']): readonly PortWithChains[] {
  return view.entries(family, topology.proxy).map(({port, set, endpointChain}) => {
    const lists = set.ambiguous.size === 0 ? [set.endpoints] : possibleEndpoints(set, topology.nodeName, topology.proxy.version);
    const all = lists[picks?.get(port) ?? 0] ?? set.endpoints;
    return {port, all, lists: lists.length, endpoints: categorizeEndpoints(port, all, topology), endpointChain, clientList: endpointChain};
  });
}

/** The Service ports that the node's kube-proxy serves in any family. */
export function servedInAnyFamily({view, config}: Pick<PortsInput, 'view' | 'config'>): readonly ServicePort[] {
  const proxy = proxyVersion(config);
  return families.flatMap(family => view.entries(family, proxy)).map(({port}) => port);
}

/**
 * Which chains a Service port has, and whether its entries lead anywhere: the derived conditions of `syncProxyRules` that iptables and nftables
 * mode share, under the names used there. 1.24 (`dropsInChain`): without a local endpoint the entries lead to the chain of local endpoints all
 * the same, which marks the packets for dropping.
 */
export function chainsUsed({port, endpoints: {hasAny, cluster, local}}: ServedPort, dropsInChain = false) {
  const isServed = (isLocal: boolean): boolean => hasAny && (!isLocal || local.length > 0 || dropsInChain);
  return {
    hasInternal: isServed(port.internalPolicyLocal),
    hasExternal: isServed(port.externalPolicyLocal),
    usesExternalChain: hasAny && hasExternalEntry(port),
    usesFirewall: hasAny && port.loadBalancerVIPs.length > 0 && port.sourceRanges.length > 0,
    usesCluster: cluster.length > 0 && usesClusterEndpoints(port),
    usesLocal: (dropsInChain ? hasAny : local.length > 0) && usesLocalEndpoints(port),
  };
}
