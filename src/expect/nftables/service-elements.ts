import {localhostRejectChain, localhostRejectMap, type NftPlan, rejectedOnLocalhost} from './nft-names.ts';
import {checksClusterIPs, hasFirewallChains, maxCommentBytes, rewritesInServiceChain, truncatesComments} from './nft-versions.ts';

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
    ...externalElements(plan),
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

function externalElements(plan: NftPlan): readonly SharedElement[] {
  return plan.externalAddresses.flatMap(address => {
    const key = addressKey(plan, address);
    return leadsOut(plan, {key, map: 'service-ips', refusals: 'no-endpoint-services'});
  });
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
  return {set, key, value: noEndpointVerdict, comment: truncatesComments(context.version) ? truncated(name) : name};
}

/** Names are ASCII: one character is one byte. */
function truncated(name: string): string {
  return name.slice(0, maxCommentBytes);
}
