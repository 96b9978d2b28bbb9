import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {Difference, Rule, Ruleset, ChainSource} from '../../../model/ruleset.ts';
import type {Evidence} from '../../outcomes/mode-semantics.ts';
import {evidenceOf} from '../../symptoms/port-symptoms.ts';
import type {PathOutcome} from '../../outcomes/path-outcome.ts';
import type {KnownSenders} from '../../outcomes/sources.ts';

export type PortDifference = Difference<PortOnNode>;

export interface PortCase {
  readonly item: PortOnNode;
  readonly differences: readonly PortDifference[];
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  readonly view: ChainSource;
  /** Some unexpected rule in a shared chain may match packets of any Service port. */
  readonly isBesideBroadRules: boolean;
  readonly senders: () => KnownSenders;
}

/** The differences of one Service port, with the queries that its analysis needs. */
export class PortDifferences {
  readonly all: readonly PortDifference[];
  readonly #hash: string;

  constructor({item, differences}: Pick<PortCase, 'item' | 'differences'>) {
    this.all = differences;
    this.#hash = item.port.hash;
  }

  of(kind: PortDifference['kind']): readonly PortDifference[] {
    return this.all.filter(difference => difference.kind === kind);
  }

  missingRules(): readonly Rule[] {
    return this.of('missing').map(({rule}) => rule);
  }

  extraRules(): readonly Rule[] {
    return this.of('extra').map(({rule}) => rule);
  }

  /** A chain of the Service port's own. */
  isOwn(chain: string): boolean {
    return parseChainName(chain)?.hash === this.#hash;
  }

  /** Differences as evidence: some missing rules, and some unexpected ones. */
  evidence(concerns: (difference: PortDifference) => boolean): Evidence<Rule> {
    return evidenceOf<Rule>(this.all.filter(concerns));
  }
}

export function hasMatch(rule: Rule, name: string): boolean {
  return rule.matches.some(match => match.name === name);
}

/** The rule that picks an endpoint. */
export function isPick({target}: Rule): boolean {
  return parseChainName(target?.name ?? '')?.role === 'SEP';
}

/** A rule that finds or remembers a client, or the DNAT that does not remember it. */
export function isOfAffinity(rule: Rule): boolean {
  return hasMatch(rule, 'recent') || rule.target?.name === 'DNAT';
}

/** A rule of a chain that all Service ports share. */
export function isShared({chain}: Rule): boolean {
  return parseChainName(chain) === null;
}

/** The chain that picks the endpoint in the expected rules. */
export function balancingChain(expected: PathOutcome): string | null {
  for (const {path} of expected.destinations.values()) {
    const pick = path.findLast(isPick);
    if (pick !== undefined) return pick.chain;
  }
  return null;
}
