import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {Difference, Rule, Ruleset, ChainSource} from '../../../model/ruleset.ts';
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

/** The rules that are missing, or that kube-proxy would not have written. */
export function rulesOf({differences}: Pick<PortCase, 'differences'>, kind: 'missing' | 'extra'): readonly Rule[] {
  return differences.flatMap(one => (one.kind === kind ? [one.rule] : []));
}

/** A chain of the Service port's own. */
export function isOwnChain({item}: Pick<PortCase, 'item'>, chain: string): boolean {
  return parseChainName(chain)?.hash === item.port.hash;
}

export function hasMatch(rule: Rule, name: string): boolean {
  return rule.matches.some(match => match.name === name);
}

/** A rule that finds or remembers a client, or the DNAT that does not remember it. */
export function isOfAffinity(rule: Rule): boolean {
  return hasMatch(rule, 'recent') || rule.target?.name === 'DNAT';
}
