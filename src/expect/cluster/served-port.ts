import {families, type Family} from '../../model/address.ts';
import type {PortWithChains} from '../../model/endpoint.ts';
import type {NodeFacts} from '../../model/node/node-facts.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import type {ServicePort} from '../../model/service-port.ts';
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
