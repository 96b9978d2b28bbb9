import type {NftSet} from '../../model/nft-ruleset.ts';
import {type NodeContext, nodePortDestinations} from '../node-context.ts';
import {localhostRejectMap, type NftPlan, rejectedOnLocalhost} from './nft-names.ts';
import {checksClusterIPs, hasFirewallChains, rewritesInServiceChain} from './nft-versions.ts';

/** The declaration of a set or map. */
export type SetShape = Pick<NftSet, 'name' | 'keyTypes' | 'valueTypes' | 'flags' | 'timeout'>;

/** The sets and maps that all Services share. They exist even if they are empty. */
export function baseSets(context: NodeContext): readonly SetShape[] {
  const address = addressType(context);
  const entry = [address, 'inet_proto', 'inet_service'];
  const {version} = context;
  return [
    ...(checksClusterIPs(version) ? [set('cluster-ips', [address])] : []),
    ...(context.nodePortCIDRs === null ? [] : [set('nodeport-ips', [address])]),
    ...(rewritesInServiceChain(version) ? [set('hairpin-connections', [address, ...entry])] : []),
    ...(rejectedOnLocalhost(context).length === 0 ? [] : [verdictMap(localhostRejectMap, entry.slice(1))]),
    verdictMap('no-endpoint-services', entry),
    verdictMap('no-endpoint-nodeports', entry.slice(1)),
    ...(hasFirewallChains(version)
      ? [verdictMap('firewall-ips', entry)]
      : [set('firewall', entry), {...set('firewall-allow', [...entry, address]), flags: ['interval']}]),
    verdictMap('service-ips', entry),
    verdictMap('service-nodeports', entry.slice(1)),
  ];
}

/** The comments of the shared sets and maps. */
export const setComments: Readonly<Record<string, string>> = {
  'cluster-ips': 'Active ClusterIPs',
  'nodeport-ips': 'IPs that accept NodePort traffic',
  'hairpin-connections': 'service hairpin connections',
  'no-endpoint-services': 'vmap to drop or reject packets to services with no endpoints',
  'no-endpoint-nodeports': 'vmap to drop or reject packets to service nodeports with no endpoints',
  'firewall-ips': 'destinations that are subject to LoadBalancerSourceRanges',
  'service-ips': 'ClusterIP, ExternalIP and LoadBalancer IP traffic',
  'service-nodeports': 'NodePort traffic',
  [localhostRejectMap]: 'localhost NodePorts rejected by kube-proxy',
};

/** The addresses on which node ports answer; null if it is all of them and the set does not exist. */
export function nodePortIPs(context: NodeContext): readonly string[] | null {
  return nodePortDestinations(context);
}

/** The affinity sets of one Service port, one for each endpoint. */
export function affinitySets({item, context}: NftPlan): readonly SetShape[] {
  const {affinitySeconds} = item.port;
  if (affinitySeconds === null) return [];
  return item.endpoints.reachable.map(endpoint => ({
    ...set(item.names.affinity(endpoint), [addressType(context)]),
    flags: ['timeout'],
    timeout: affinitySeconds,
  }));
}

function addressType({family}: NodeContext): string {
  return family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr';
}

function set(name: string, keyTypes: readonly string[]): SetShape {
  return {name, keyTypes, valueTypes: null, flags: [], timeout: null};
}

function verdictMap(name: string, keyTypes: readonly string[]): SetShape {
  return {...set(name, keyTypes), valueTypes: ['verdict']};
}
