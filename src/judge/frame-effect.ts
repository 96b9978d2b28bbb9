import type {ExpectedRuleset} from '../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../expect/iptables/service-rules.ts';
import type {Chain, ChainSource, Rule, Ruleset} from '../model/ruleset.ts';
import type {Environment, Packet} from '../trace/packet.ts';
import {walkPacket} from '../trace/walk-packet.ts';
import {environmentOf} from './environment.ts';
import {packetOf, probesFor} from './probes.ts';
import {sourcesFor} from './sources.ts';
import {type Fate, fateOf, sameFate} from './trial.ts';

/**
 * Whether a rule of the frame, as it is found or missing, changes what becomes of packets: they are walked through the rules
 * as they are, and once more with the rule as it should be.
 */
export class FrameEffect {
  readonly #expected: ExpectedRuleset;
  readonly #actual: Ruleset;
  readonly #environment: Environment;
  #walked: readonly {readonly packet: Packet; readonly fate: Fate}[] | null = null;

  constructor(expected: ExpectedRuleset, actual: Ruleset) {
    this.#expected = expected;
    this.#actual = actual;
    this.#environment = environmentOf(expected.context.facts);
  }

  /** Of a rule that a base chain lacks. */
  ofMissing(rule: Rule): boolean {
    const chain = this.#actual.chain(rule.table, rule.chain);
    return chain === undefined || this.#changes(listChain(chain, [rule, ...chain.rules()]));
  }

  /** Of all that differs in a chain of kube-proxy's. */
  ofChain(table: string, name: string): boolean {
    const chain = this.#expected.chain(table, name);
    return chain !== undefined && this.#changes(chain);
  }

  #changes(chain: Chain): boolean {
    const actual = this.#actual;
    const repaired: ChainSource = {
      family: actual.family,
      hasTable: table => actual.hasTable(table),
      chain: (table, name) => (table === chain.table && name === chain.name ? chain : actual.chain(table, name)),
    };
    this.#walked ??= this.#packets().map(packet => ({packet, fate: this.#walk(actual, packet)}));
    return this.#walked.some(({packet, fate}) => !sameFate(fate, this.#walk(repaired, packet)));
  }

  #walk(rules: ChainSource, packet: Packet): Fate {
    return fateOf(walkPacket(rules, packet, this.#environment));
  }

  /** Those of one Service port of each shape, and some that are for no Service. */
  #packets(): readonly Packet[] {
    const {context, ports} = this.#expected;
    const byShape = new Map(ports.map(item => [shapeOf(item), item]));
    const probes = [...byShape.values()].flatMap(item => probesFor({item, context, hairpins: item.endpoints.reachable.slice(0, 1)}));
    return [...probes.filter(({knownTo}) => knownTo.size === 0).map(({packet}) => packet), ...this.#otherPackets()];
  }

  /** What neighbours send to the loopback address, and what leaves for the world. */
  #otherPackets(): readonly Packet[] {
    const {context, family} = this.#expected;
    const destinations = family === 'IPv4' ? ['127.0.0.1', '9.9.9.9'] : ['2620:fe::fe'];
    const sources = sourcesFor({sourceRanges: [], loadBalancerVIPs: []}, context, new Set());
    return sources.flatMap(from =>
      destinations.flatMap(destination => packetOf({protocol: 'TCP', family}, {source: from.address, destination, port: 9, from}) ?? []),
    );
  }
}

/** All that decides which rules of the frame a Service port's packets meet. */
function shapeOf({port, endpoints}: PortOnNode): string {
  return [
    port.protocol,
    port.externalPolicyLocal,
    port.internalPolicyLocal,
    port.nodePort !== 0,
    port.loadBalancerVIPs.length > 0,
    port.externalIPs.length > 0,
    port.sourceRanges.length > 0,
    endpoints.hasAny,
    endpoints.local.length > 0,
  ].join();
}

export function listChain(like: Chain, rules: readonly Rule[]): Chain {
  const {table, name, policy, complete} = like;
  return {
    ...{table, name, policy, complete},
    ruleCount: rules.length,
    rules: () => rules,
    text: () => rules.map(rule => rule.text).join('\n'),
  };
}
