import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {Rule, Ruleset} from '../../../model/ruleset.ts';
import type {PortSymptom} from '../../symptoms/symptom-list.ts';
import type {PortDifference} from '../service-port/port-differences.ts';
import type {ChangesOutcomes} from './base-rule-effect.ts';

export interface BaseRulesCase {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  /** Differences that belong to no Service port. */
  readonly differences: readonly PortDifference[];
  /** The Service ports whose own rules differ. */
  readonly differing: ReadonlySet<PortOnNode>;
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

export const baseChainNames: ReadonlySet<string> = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);

/** Up to 1.26 the kubelet writes a rule into KUBE-FIREWALL and copies of kube-proxy's into KUBE-POSTROUTING and KUBE-MARK-MASQ. */
export function isKubeletsOwn(rule: Rule): boolean {
  return rule.chain === 'KUBE-FIREWALL' && rule.line > 0 && rule.text.includes('--mark 0x8000/0x8000') && rule.target?.name === 'DROP';
}
