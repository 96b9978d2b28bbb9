import type {Endpoint} from '../../model/endpoint.ts';
import {ownAddressesInRanges} from '../iptables/service-rules.ts';
import {detects} from './detects.ts';
import type {NftPlan} from './nft-port.ts';
import {hasFirewallChains, marksByPort, rewritesInServiceChain, translatesSingleEndpointDirectly} from './nft-versions.ts';
import type {RuleSpelling} from './rule-spelling.ts';

/** The chains of one Service port, by name: their rules in order. */
export function serviceChains(plan: NftPlan, spelling: RuleSpelling): ReadonlyMap<string, readonly string[]> {
  const {item, context} = plan;
  const {names, endpoints} = item;
  const chains = new Map<string, readonly string[]>();
  if (plan.usesExternalChain) chains.set(names.external, externalChain(plan, spelling));
  if (plan.usesCluster) chains.set(names.service, policyChain(plan, names.service, endpoints.cluster, spelling));
  if (plan.usesLocal) chains.set(names.local, policyChain(plan, names.local, endpoints.local, spelling));
  for (const endpoint of plan.chained) chains.set(names.endpoint(endpoint), endpointChain(plan, endpoint, spelling));
  if (plan.usesFirewall && hasFirewallChains(context.version)) chains.set(names.firewall, [firewallRule(plan, spelling)]);
  return chains;
}

/** Masquerading, the bypasses of a Local policy, then the jump to the endpoints. */
function externalChain({item, context, hasExternal, externalPolicyChain}: NftPlan, spelling: RuleSpelling): readonly string[] {
  const {names, port} = item;
  const {rule, and, call, localSource} = spelling;
  const onward = hasExternal ? [rule(call('goto', externalPolicyChain))] : [];
  const inPlace = rewritesInServiceChain(context.version);
  const marks = inPlace ? spelling.setMark(context.mark) : call('jump', markChain);
  if (!port.externalPolicyLocal) return [inPlace ? rule(marks, 'masquerade') : rule(marks), ...onward];
  const pods = detects(context, true, spelling);
  const served = call('goto', names.service);
  return [
    ...(pods === null ? [] : [rule(and(pods, served), 'short-circuit pod traffic')]),
    rule(and(localSource, marks), 'masquerade local traffic'),
    rule(and(localSource, served), 'short-circuit local traffic'),
    ...onward,
  ];
}

/** `service-…` and `local-…`: masquerade of cluster-IP traffic up to 1.35, affinity, balancing. */
function policyChain(plan: NftPlan, chain: string, endpoints: readonly Endpoint[], spelling: RuleSpelling): readonly string[] {
  return [...clusterIPMark(plan, chain, spelling), ...affinityRules(plan, endpoints, spelling), balancingRule(plan, endpoints, spelling)];
}

function balancingRule({item, context}: NftPlan, endpoints: readonly Endpoint[], spelling: RuleSpelling): string {
  const {protocol, affinitySeconds} = item.port;
  if (!rewritesInServiceChain(context.version) || affinitySeconds !== null)
    return spelling.rule(spelling.balancedGoto(endpoints.map(item.names.endpoint)));
  const [only] = endpoints;
  const isDirect = endpoints.length === 1 && translatesSingleEndpointDirectly(context.version);
  const rewrites = isDirect && only !== undefined ? spelling.dnat(only) : spelling.balancedDNAT(endpoints);
  return spelling.rule(spelling.and(spelling.protocol(protocol.toLowerCase()), rewrites));
}

/** In the chain of the cluster IP. From 1.36 on, one rule does this for all Services. */
function clusterIPMark({item, context, hasInternal, internalChain}: NftPlan, chain: string, spelling: RuleSpelling): readonly string[] {
  if (rewritesInServiceChain(context.version) || chain !== internalChain || !hasInternal) return [];
  const {clusterIP, protocol, port} = item.port;
  const others = context.masqueradeAll ? '' : detects(context, false, spelling);
  if (others === null) return [];
  const {rule, and, call} = spelling;
  let marked = spelling.address('daddr', clusterIP);
  if (marksByPort(context.version)) marked = and(marked, spelling.port(protocol.toLowerCase(), port));
  if (others !== '') marked = and(marked, others);
  return [rule(and(marked, call('jump', markChain)))];
}

function affinityRules({item}: NftPlan, endpoints: readonly Endpoint[], {rule, and, call, address}: RuleSpelling): readonly string[] {
  if (item.port.affinitySeconds === null) return [];
  const {affinity, endpoint: chainOf} = item.names;
  return endpoints.map(endpoint => rule(and(address('saddr', `@${affinity(endpoint)}`), call('goto', chainOf(endpoint)))));
}

function endpointChain({item, context}: NftPlan, endpoint: Endpoint, spelling: RuleSpelling): readonly string[] {
  const {port, names} = item;
  const {rule, and} = spelling;
  const rewrite = rule(and(spelling.protocol(port.protocol.toLowerCase()), spelling.dnat(endpoint)));
  const kept = port.affinitySeconds === null ? [rewrite] : [rule(spelling.rememberSource(names.affinity(endpoint))), rewrite];
  if (rewritesInServiceChain(context.version)) return kept;
  return [rule(and(spelling.address('saddr', endpoint.address), spelling.call('jump', markChain))), ...kept];
}

/** If the source ranges contain the node itself, each load-balancer address may reach itself. */
function firewallRule({item, context}: NftPlan, {rule, and, sourceOutside, drop}: RuleSpelling): string {
  const {port} = item;
  const allowed = [...new Set([...port.sourceRanges, ...ownAddressesInRanges(port, context)])];
  return rule(and(sourceOutside(allowed), drop));
}

const markChain = 'mark-for-masquerade';
