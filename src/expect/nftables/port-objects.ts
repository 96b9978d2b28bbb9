import type {Endpoint} from '../../model/endpoint.ts';
import type {NftJsonSink} from '../../model/nft-ruleset.ts';
import {jsonRuleText} from '../../parse/nftables/nft-json-rule.ts';
import {isPlainJson} from '../../parse/nftables/nft-json-chains.ts';
import type {Fields} from '../../parse/attempt.ts';
import {ownAddressesInRanges} from '../iptables/service-rules.ts';
import {detects, detectsPods} from './base-chains.ts';
import {affinitySets, type SetShape, serviceElements, type SharedElement} from './set-elements.ts';
import {JsonWriter} from './json-writer.ts';
import type {NftPlan} from './nft-names.ts';
import {hasFirewallChains, marksByPort, rewritesInServiceChain, translatesSingleEndpointDirectly} from './nft-versions.ts';

/** Everything that kube-proxy creates for one Service port, each part computed when something asks for it. */
export class PortObjects {
  readonly #plan: NftPlan;
  #chains: ReadonlyMap<string, readonly string[]> | null = null;

  constructor(plan: NftPlan) {
    this.#plan = plan;
  }

  get elements(): readonly SharedElement[] {
    return serviceElements(this.#plan);
  }

  get sets(): readonly SetShape[] {
    return affinitySets(this.#plan);
  }

  /** The texts of the rules of its own chains, by name. */
  get chains(): ReadonlyMap<string, readonly string[]> {
    this.#chains ??= textsOfChains(this.#plan);
    return this.#chains;
  }

  /**
   * Writes the same rules as JSON has them after their handles. Returns false, and writes nothing, for names that JSON escapes, which
   * Kubernetes does not allow.
   */
  writeJson(sink: NftJsonSink): boolean {
    const {item, context} = this.#plan;
    if (!isPlainJson(item.names.base)) return false;
    writeServiceChains(this.#plan, new JsonWriter(context.family, sink));
    return true;
  }
}

/** As `nft list ruleset` prints what is written as JSON: where a dump is of another version of nft, or the rules are others. */
function textsOfChains(plan: NftPlan): ReadonlyMap<string, readonly string[]> {
  const chains = new Map<string, string[]>();
  let rules: string[] = [];
  const sink: NftJsonSink = {
    chain: name => {
      rules = [];
      chains.set(name, rules);
    },
    rule: (pieces, count) => {
      // All but the comma before it and the brace of the object around it.
      const json = pieces.slice(0, count).join('').slice(', '.length, -'}'.length);
      const {expr, comment} = JSON.parse(`{${json}`) as Fields;
      rules.push(jsonRuleText(expr, comment));
    },
  };
  writeServiceChains(plan, new JsonWriter(plan.context.family, sink, !isPlainJson(plan.item.names.base)));
  return chains;
}

/** Writes the chains of one Service port with their rules in order. */
function writeServiceChains(plan: NftPlan, to: JsonWriter): void {
  const {item, context} = plan;
  const {names, endpoints} = item;
  if (plan.usesExternalChain) writeExternalChain(plan, to);
  if (plan.usesCluster) writePolicyChain(plan, names.service, endpoints.cluster, to);
  if (plan.usesLocal) writePolicyChain(plan, names.local, endpoints.local, to);
  for (const endpoint of plan.chained) writeEndpointChain(plan, endpoint, to);
  if (plan.usesFirewall && hasFirewallChains(context.version)) writeFirewallChain(plan, to);
}

/** Masquerading, the bypasses of a Local policy, then the jump to the endpoints. */
function writeExternalChain({item, context, hasExternal, externalPolicyChain}: NftPlan, to: JsonWriter): void {
  const {names, port} = item;
  const inPlace = rewritesInServiceChain(context.version);
  to.chain(names.external);
  if (port.externalPolicyLocal) writeLocalBypasses({item, context}, to);
  else {
    to.rule(inPlace ? 'masquerade' : undefined);
    writeMark(context, to);
    to.end();
  }
  if (!hasExternal) return;
  to.rule();
  to.call('goto', externalPolicyChain);
  to.end();
}

function writeLocalBypasses({item: {names}, context}: Pick<NftPlan, 'item' | 'context'>, to: JsonWriter): void {
  if (detectsPods(context)) {
    to.rule('short-circuit pod traffic');
    detects(context, true, to);
    to.call('goto', names.service);
    to.end();
  }
  to.rule('masquerade local traffic');
  to.localSource();
  writeMark(context, to);
  to.end();
  to.rule('short-circuit local traffic');
  to.localSource();
  to.call('goto', names.service);
  to.end();
}

function writeMark({version, mark}: NftPlan['context'], to: JsonWriter): void {
  if (rewritesInServiceChain(version)) to.setMark(mark);
  else to.call('jump', markChain);
}

/** `service-…` and `local-…`: masquerade of cluster-IP traffic up to 1.35, affinity, balancing. */
function writePolicyChain(plan: NftPlan, chain: string, endpoints: readonly Endpoint[], to: JsonWriter): void {
  const {affinitySeconds} = plan.item.port;
  to.chain(chain);
  if (plan.hasInternal && chain === plan.internalChain) writeClusterIPMark(plan, to);
  if (affinitySeconds !== null) writeAffinityRules(plan, endpoints, to);
  to.rule();
  if (!rewritesInServiceChain(plan.context.version) || affinitySeconds !== null) to.balancedGoto(endpoints.map(plan.item.names.endpoint));
  else writeTranslation(plan, endpoints, to);
  to.end();
}

function writeTranslation({item, context}: NftPlan, endpoints: readonly Endpoint[], to: JsonWriter): void {
  const [only] = endpoints;
  const isDirect = endpoints.length === 1 && translatesSingleEndpointDirectly(context.version);
  to.protocol(item.port.protocol.toLowerCase());
  if (isDirect && only !== undefined) to.dnat(only);
  else to.balancedDNAT(endpoints);
}

/** In the chain of the cluster IP. From 1.36 on, one rule does this for all Services. */
function writeClusterIPMark({item, context}: NftPlan, to: JsonWriter): void {
  if (rewritesInServiceChain(context.version) || (!context.masqueradeAll && !detectsPods(context))) return;
  const {clusterIP, protocol, port} = item.port;
  to.rule();
  to.address('daddr', clusterIP);
  if (marksByPort(context.version)) to.port(protocol.toLowerCase(), port);
  if (!context.masqueradeAll) detects(context, false, to);
  to.call('jump', markChain);
  to.end();
}

function writeAffinityRules({item}: NftPlan, endpoints: readonly Endpoint[], to: JsonWriter): void {
  const {affinity, endpoint: chainOf} = item.names;
  for (const endpoint of endpoints) {
    to.rule();
    to.address('saddr', `@${affinity(endpoint)}`);
    to.call('goto', chainOf(endpoint));
    to.end();
  }
}

function writeEndpointChain({item, context}: NftPlan, endpoint: Endpoint, to: JsonWriter): void {
  const {port, names} = item;
  const mark = rewritesInServiceChain(context.version) ? null : markChain;
  const protocol = port.protocol.toLowerCase();
  to.chain(names.endpoint(endpoint));
  if (port.affinitySeconds === null) return to.endpoint(endpoint, {protocol, mark});
  if (mark !== null) {
    to.rule();
    to.address('saddr', endpoint.address);
    to.call('jump', mark);
    to.end();
  }
  to.rule();
  to.rememberSource(names.affinity(endpoint));
  to.end();
  to.rule();
  to.protocol(protocol);
  to.dnat(endpoint);
  to.end();
}

/** If the source ranges contain the node itself, each load-balancer address may reach itself. */
function writeFirewallChain({item, context}: NftPlan, to: JsonWriter): void {
  const {port, names} = item;
  to.chain(names.firewall);
  to.rule();
  to.sourceOutside([...new Set([...port.sourceRanges, ...ownAddressesInRanges(port, context)])]);
  to.drop();
  to.end();
}

export const markChain = 'mark-for-masquerade';
