import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';
import type {KnownSenders} from '../outcomes/sources.ts';
import {servicePortName} from './entry-rule.ts';
import type {IptablesServiceView} from './iptables-service-view.ts';
import {analyzeUnexpectedRules} from './unexpected-rules.ts';
import {staleService} from '../symptoms/stale-service.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {pushTo} from '../../model/lists.ts';

interface StaleInput {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  readonly view: IptablesServiceView;
  readonly senders: () => KnownSenders;
  /** Rules of shared Service chains that belong to no expected Service port. */
  readonly rules: readonly Rule[];
}

/** Service ports that the API does not have and the node still answers for: one symptom each, with all their rules. */
export function staleServices({expected, actual, view, senders, rules}: StaleInput): readonly Symptom[] {
  const leadsOn = (rule: Rule): boolean => rule.table === 'nat' && (actual.chain('nat', rule.target?.name ?? '')?.ruleCount ?? 0) > 0;
  const groups = new Map<string, Rule[]>();
  for (const rule of rules) {
    const key = servicePortName(rule) ?? parseChainName(rule.target?.name ?? '')?.hash ?? '';
    pushTo(groups, key, rule);
  }
  return [...groups].map(([name, group]) =>
    name === ''
      ? analyzeUnexpectedRules({expected, view, senders, rules: group})
      : staleService({name, served: group.some(leadsOn), rules: group}, expected),
  );
}
