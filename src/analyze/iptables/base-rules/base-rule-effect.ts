import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {Chain, Rule, Ruleset, RuleText} from '../../../model/ruleset.ts';
import {baseRuleChanges} from '../../outcomes/base-rule-packets.ts';
import {isOfSome} from '../../outcomes/outcome-changes.ts';
import {type PathOutcome, walkOf} from '../../outcomes/path-outcome.ts';
import type {KnownSenders} from '../../outcomes/sources.ts';
import type {PortSymptom} from '../../symptoms/symptom-list.ts';
import {listChain, textsOf, withChain} from '../chain-texts.ts';
import type {PortDifference} from '../service-port/port-differences.ts';

export interface BaseRulesCase {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  /** Differences that belong to no Service port. */
  readonly differences: readonly PortDifference[];
  /** The Service ports whose own rules differ. */
  readonly differing: ReadonlySet<PortOnNode>;
  readonly senders: () => KnownSenders;
}

/** The differences that no base rule has explained so far. */
export interface LeftBaseRules extends BaseRulesCase {
  readonly changesOutcomes: ChangesOutcomes;
}

/** A symptom of the node, and the differences that it explains. */
export interface BaseRuleSymptom {
  readonly symptom: PortSymptom<Rule>;
  readonly explained: readonly PortDifference[];
}

/** Up to 1.26 the kubelet writes a rule into KUBE-FIREWALL and copies of kube-proxy's into KUBE-POSTROUTING and KUBE-MARK-MASQ. */
export function isKubeletsOwn(rule: Rule): boolean {
  return rule.chain === 'KUBE-FIREWALL' && rule.line > 0 && rule.text.includes('--mark 0x8000/0x8000') && rule.target?.name === 'DROP';
}

/** Whether packets have another outcome where a chain of the node holds these rules; or an outcome that differs in this way from what it is today. */
type ChangesOutcomes = (
  chain: Chain,
  rules: readonly Rule[],
  differs?: (today: PathOutcome<RuleText>, then: PathOutcome<RuleText>) => boolean,
) => boolean;

interface NodeRules extends Omit<BaseRulesCase, 'differences'> {
  /** Base rules that kube-proxy did not write. */
  readonly unexpected: readonly Rule[];
}

/** Packets are walked through the actual rules, and through the same rules with another chain. What some clients outside lose is on purpose. */
export function outcomesWithout({expected, actual, unexpected, differing, senders}: NodeRules): ChangesOutcomes {
  const {context, ports} = expected;
  const changes = baseRuleChanges({context, ports, differing, senders, texts: textsOf(unexpected, actual)}, walkOf(actual));
  return (chain, rules, differs = () => true) =>
    changes(walkOf(withChain(actual, chain, listChain(chain, rules)))).some(
      ({probe, before, after}) => (probe === undefined || !isOfSome({probe})) && differs(before, after),
    );
}

/** Whether packets have another outcome because a jump is missing from a base chain, or differs. */
export function isNeeded(rule: Rule, actual: Ruleset, changesOutcomes: ChangesOutcomes): boolean {
  const chain = actual.chain(rule.table, rule.chain);
  if (chain === undefined) return true;
  const isAlike = ({target}: Rule): boolean => target?.name === rule.target?.name;
  const place = Math.max(0, chain.rules().findIndex(isAlike));
  const others = chain.rules().filter(other => !isAlike(other));
  return changesOutcomes(chain, others.toSpliced(place, 0, rule));
}
