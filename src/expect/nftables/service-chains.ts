import type {Endpoint} from '../../model/endpoint.ts';
import {ownAddressesInRanges} from '../iptables/service-rules.ts';
import {addressList, nftComment, detects, ipWord, prefixText, setMarkStatement} from './nft-text.ts';
import type {NftPlan} from './nft-port.ts';
import {hasFirewallChains, marksByPort, rewritesInServiceChain, translatesSingleEndpointDirectly} from './nft-versions.ts';

/** The chains of one Service port, by name: the texts of their rules in order, as nft lists them. */
export function serviceChains(plan: NftPlan): ReadonlyMap<string, readonly string[]> {
  const {item, context} = plan;
  const {names, endpoints} = item;
  const chains = new Map<string, readonly string[]>();
  if (plan.usesExternalChain) chains.set(names.external, externalChain(plan));
  if (plan.usesCluster) chains.set(names.service, policyChain(plan, names.service, endpoints.cluster));
  if (plan.usesLocal) chains.set(names.local, policyChain(plan, names.local, endpoints.local));
  for (const endpoint of plan.chained) chains.set(names.endpoint(endpoint), endpointChain(plan, endpoint));
  if (plan.usesFirewall && hasFirewallChains(context.version)) chains.set(names.firewall, [firewallRule(plan)]);
  return chains;
}

/** Masquerading, the bypasses of a Local policy, then the jump to the endpoints. */
function externalChain({item, context, hasExternal, externalPolicyChain}: NftPlan): readonly string[] {
  const {names, port} = item;
  const onward = hasExternal ? [`goto ${externalPolicyChain}`] : [];
  const inPlace = rewritesInServiceChain(context.version);
  const marks = inPlace ? setMarkStatement(context) : 'jump mark-for-masquerade';
  if (!port.externalPolicyLocal) return [inPlace ? marks + nftComment('masquerade') : marks, ...onward];
  const pods = detects(context, true);
  return [
    ...(pods === null ? [] : [`${pods} goto ${names.service}${nftComment('short-circuit pod traffic')}`]),
    `fib saddr type local ${marks}${nftComment('masquerade local traffic')}`,
    `fib saddr type local goto ${names.service}${nftComment('short-circuit local traffic')}`,
    ...onward,
  ];
}

/** `service-…` and `local-…`: masquerade of cluster-IP traffic up to 1.35, affinity, balancing. */
function policyChain(plan: NftPlan, chain: string, endpoints: readonly Endpoint[]): readonly string[] {
  const {item, context} = plan;
  return [...clusterIPMark(plan, chain), ...affinityRules(plan, endpoints), balancingRule()];

  function balancingRule(): string {
    const random = `numgen random mod ${endpoints.length}`;
    const {protocol, affinitySeconds} = item.port;
    const list = (text: (endpoint: Endpoint) => string): string =>
      `{ ${endpoints.map((endpoint, index) => `${index} : ${text(endpoint)}`).join(', ')} }`;
    if (!rewritesInServiceChain(context.version) || affinitySeconds !== null)
      return `${random} vmap ${list(endpoint => `goto ${item.names.endpoint(endpoint)}`)}`;
    const matches = `meta l4proto ${protocol.toLowerCase()}`;
    const [only] = endpoints;
    if (endpoints.length === 1 && only !== undefined && translatesSingleEndpointDirectly(context.version))
      return `${matches} dnat to ${only.hostPort}`;
    const addresses = list(({address, port}) => `${address} . ${port}`);
    return `${matches} dnat ${ipWord(context.family)} to ${random} map ${addresses}`;
  }
}

/** In the chain of the cluster IP. From 1.36 on, one rule does this for all Services. */
function clusterIPMark({item, context, hasInternal, internalChain}: NftPlan, chain: string): readonly string[] {
  if (rewritesInServiceChain(context.version) || chain !== internalChain || !hasInternal) return [];
  const {clusterIP, protocol, port} = item.port;
  const others = context.masqueradeAll ? '' : detects(context, false);
  if (others === null) return [];
  const byPort = marksByPort(context.version) ? ` ${protocol.toLowerCase()} dport ${port}` : '';
  const from = others === '' ? '' : ` ${others}`;
  return [`${ipWord(context.family)} daddr ${clusterIP}${byPort}${from} jump mark-for-masquerade`];
}

function affinityRules({item, context}: NftPlan, endpoints: readonly Endpoint[]): readonly string[] {
  if (item.port.affinitySeconds === null) return [];
  const {affinity, endpoint: chainOf} = item.names;
  return endpoints.map(endpoint => `${ipWord(context.family)} saddr @${affinity(endpoint)} goto ${chainOf(endpoint)}`);
}

function endpointChain({item, context}: NftPlan, endpoint: Endpoint): readonly string[] {
  const {port, names} = item;
  const saddr = `${ipWord(context.family)} saddr`;
  return [
    ...(rewritesInServiceChain(context.version) ? [] : [`${saddr} ${endpoint.address} jump mark-for-masquerade`]),
    ...(port.affinitySeconds === null ? [] : [`update @${names.affinity(endpoint)} { ${saddr} }`]),
    `meta l4proto ${port.protocol.toLowerCase()} dnat to ${endpoint.hostPort}`,
  ];
}

/** If the source ranges contain the node itself, each load-balancer address may reach itself. */
function firewallRule({item, context}: NftPlan): string {
  const {port} = item;
  const allowed = [...new Set([...port.sourceRanges, ...ownAddressesInRanges(port, context)])];
  return `${ipWord(context.family)} saddr != ${allowed.length === 1 ? prefixText(allowed[0] ?? '') : addressList(allowed)} drop`;
}
