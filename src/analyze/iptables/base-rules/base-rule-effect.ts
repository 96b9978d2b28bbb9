import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import type {Chain, ChainSource, Rule, Ruleset} from '../../../model/ruleset.ts';
import type {Environment, Packet} from '../../../trace/packet.ts';
import {walkPacket} from '../../../trace/iptables/walk-packet.ts';
import {environmentOf} from '../../outcomes/environment.ts';
import {shapeOf} from '../../outcomes/port-shape.ts';
import {packetOf, probesFor} from '../../outcomes/probes.ts';
import {sourcesFor} from '../../outcomes/sources.ts';
import {type PathOutcome, isSameOutcome} from '../../outcomes/path-outcome.ts';
import {pathOutcomeOf} from '../iptables-outcome.ts';

/**
 * Whether a base rule that is missing or differs changes the outcome of packets: they are walked through the actual rules,
 * and through the same rules with the expected one.
 */
export class BaseRuleEffect {
  readonly #expected: ExpectedRuleset;
  readonly #actual: Ruleset;
  readonly #environment: Environment;
  #walked: readonly {readonly packet: Packet; readonly pathOutcome: PathOutcome}[] | null = null;

  constructor(expected: ExpectedRuleset, actual: Ruleset) {
    this.#expected = expected;
    this.#actual = actual;
    this.#environment = environmentOf(expected.context.facts);
  }

  /** For a jump that is missing from a base chain, or differs. */
  ofMissing(rule: Rule): boolean {
    const chain = this.#actual.chain(rule.table, rule.chain);
    if (chain === undefined) return true;
    const others = chain.rules().filter(({target}) => target?.name !== rule.target?.name);
    const place = Math.max(
      0,
      chain.rules().findIndex(({target}) => target?.name === rule.target?.name),
    );
    return this.ofRules(chain, others.toSpliced(place, 0, rule));
  }

  /** For a chain whose rules should be these. */
  ofRules({table, name, policy, complete}: Chain, rules: readonly Rule[]): boolean {
    const actual = this.#actual;
    const text = (): string => rules.map(rule => rule.text).join('\n');
    const chain: Chain = {table, name, policy, complete, ruleCount: rules.length, rules: () => rules, text};
    const repaired: ChainSource = {
      family: actual.family,
      hasTable: wanted => actual.hasTable(wanted),
      chain: (inTable, wanted) => (inTable === table && wanted === name ? chain : actual.chain(inTable, wanted)),
    };
    this.#walked ??= this.#packets().map(packet => ({packet, pathOutcome: this.#walk(actual, packet)}));
    return this.#walked.some(({packet, pathOutcome}) => !isSameOutcome(pathOutcome, this.#walk(repaired, packet)));
  }

  #walk(rules: ChainSource, packet: Packet): PathOutcome {
    return pathOutcomeOf(walkPacket(rules, packet, this.#environment));
  }

  /** Packets to one Service port of each shape, and some to no Service. */
  #packets(): readonly Packet[] {
    const {context, ports} = this.#expected;
    const byShape = new Map(ports.map(item => [shapeOf(item, context.facts.hostIPs), item]));
    const probes = [...byShape.values()].flatMap(item => probesFor({item, context, hairpins: item.endpoints.reachable.slice(0, 1)}));
    return [...probes.filter(({knownTo}) => knownTo.size === 0).map(({packet}) => packet), ...this.#otherPackets()];
  }

  /** Packets of other hosts to the loopback address, packets to the outside, and node ports at the loopback address. */
  #otherPackets(): readonly Packet[] {
    const {context, family} = this.#expected;
    const destinations = family === 'IPv4' ? ['127.0.0.1', '9.9.9.9'] : ['2620:fe::fe'];
    const sources = sourcesFor({sourceRanges: [], loadBalancerVIPs: []}, context, new Set());
    const arriving = sources.flatMap(from =>
      destinations.flatMap(destination => packetOf({protocol: 'TCP', family}, {source: from.address, destination, port: 9, from}) ?? []),
    );
    return [...arriving, ...this.#loopbackPackets()];
  }

  /** A node port at the loopback address, which only the node itself can reach. */
  #loopbackPackets(): readonly Packet[] {
    const address = this.#expected.family === 'IPv4' ? '127.0.0.1' : '::1';
    const port = this.#expected.ports.find(item => item.port.nodePort !== 0 && item.endpoints.hasAny)?.port;
    const from = {kind: 'node', interface: null};
    return port === undefined ? [] : [packetOf(port, {source: address, destination: address, port: port.nodePort, from}) ?? []].flat();
  }
}
