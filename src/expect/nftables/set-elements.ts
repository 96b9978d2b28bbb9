import type {NftSet} from '../../model/nft-ruleset.ts';
import type {NodeContext} from '../node-context.ts';
import {localhostRejectMap, type NftPlan, rejectedOnLocalhost, localhostRejectChain} from './nft-names.ts';
import {checksClusterIPs, hasFirewallChains, rewritesInServiceChain, maxCommentBytes, truncatesComments} from './nft-versions.ts';

/** An element of a set or map that many Service ports share. */
export interface SharedElement {
  readonly set: string;
  readonly key: string;
  /** Null in a set. */
  readonly value: string | null;
  readonly comment: string | null;
}

/** The elements of one Service port in the sets and maps that all share. Follows the loop over service ports in `syncProxyRules`. */
export function serviceElements(plan: NftPlan): readonly SharedElement[] {
  return [
    ...clusterIPElements(plan),
    ...plan.externalAddresses.flatMap(address => {
      const key = addressKey(plan, address);
      return leadsOut(plan, {key, map: 'service-ips', refusals: 'no-endpoint-services'});
    }),
    ...nodePortElements(plan),
    ...firewallElements(plan),
    ...hairpins(plan),
    ...localhostElements(plan),
  ];
}

function clusterIPElements(plan: NftPlan): readonly SharedElement[] {
  const {item, context, hasInternal, internalChain} = plan;
  const {clusterIP} = item.port;
  const key = addressKey(plan, clusterIP);
  const listed = checksClusterIPs(context.version) ? [element('cluster-ips', clusterIP, null)] : [];
  return [...listed, hasInternal ? element('service-ips', key, `goto ${internalChain}`) : refusal(plan, 'no-endpoint-services', key)];
}

function nodePortElements(plan: NftPlan): readonly SharedElement[] {
  const {nodePort, protocol} = plan.item.port;
  if (nodePort === 0) return [];
  return leadsOut(plan, {key: `${protocol.toLowerCase()} . ${nodePort}`, map: 'service-nodeports', refusals: 'no-endpoint-nodeports'});
}

/**
 * Without a local endpoint both apply: pods and the node itself are served, and packets that fall through the external chain are dropped.
 */
function leadsOut(
  plan: NftPlan,
  {key, map, refusals}: {readonly key: string; readonly map: string; readonly refusals: string},
): readonly SharedElement[] {
  const {item, hasExternal} = plan;
  return [
    ...(item.endpoints.hasAny ? [element(map, key, `goto ${item.names.external}`)] : []),
    ...(hasExternal ? [] : [refusal(plan, refusals, key)]),
  ];
}

function firewallElements(plan: NftPlan): readonly SharedElement[] {
  const {item, context, usesFirewall, balancerAddresses} = plan;
  if (!usesFirewall) return [];
  if (hasFirewallChains(context.version))
    return balancerAddresses.map(address => element('firewall-ips', addressKey(plan, address), `goto ${item.names.firewall}`));
  return balancerAddresses.flatMap(address => {
    const key = addressKey(plan, address);
    return [element('firewall', key, null), ...item.port.sourceRanges.map(range => element('firewall-allow', `${key} . ${range}`, null))];
  });
}

/** Connections of a local endpoint to itself. */
function hairpins({item, context}: NftPlan): readonly SharedElement[] {
  if (!rewritesInServiceChain(context.version)) return [];
  const {protocol} = item.port;
  const here = item.endpoints.reachable.filter(({nodeName}) => item.isLocal(nodeName));
  return here.map(({address, port}) =>
    element('hairpin-connections', `${address} . ${address} . ${protocol.toLowerCase()} . ${port}`, null),
  );
}

/** Each node port with a protocol that kube-proxy rejects on loopback addresses, whether it has endpoints or not. */
function localhostElements({item, context}: NftPlan): readonly SharedElement[] {
  const {nodePort, protocol} = item.port;
  const word = protocol.toLowerCase();
  if (nodePort === 0 || !rejectedOnLocalhost(context).includes(word)) return [];
  return [element(localhostRejectMap, `${word} . ${nodePort}`, `goto ${localhostRejectChain(word)}`)];
}

function addressKey({item: {port}}: NftPlan, address: string): string {
  return `${address} . ${port.protocol.toLowerCase()} . ${port.port}`;
}

function element(set: string, key: string, value: string | null): SharedElement {
  return {set, key, value, comment: null};
}

function refusal({item, context, noEndpointVerdict}: NftPlan, set: string, key: string): SharedElement {
  const name = item.port.servicePortName;
  // Names are ASCII: one character is one byte.
  return {set, key, value: noEndpointVerdict, comment: truncatesComments(context.version) ? name.slice(0, maxCommentBytes) : name};
}

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
