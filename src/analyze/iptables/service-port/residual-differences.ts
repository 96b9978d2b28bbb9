import type {Rule} from '../../../model/ruleset.ts';
import {entriesOf} from '../../outcomes/entries.ts';
import {type ResidualGroup, residualGroups} from '../../symptoms/residual-differences.ts';
import {staleEntry} from '../../symptoms/stale-service.ts';
import type {SymptomList} from '../../symptoms/symptom-list.ts';
import {entryOfRule, isEntryRule} from '../entry-rule.ts';
import {explanationsOf, isExplained} from './explained-differences.ts';
import type {PortCase, PortDifference} from './port-differences.ts';

interface LeftCase extends PortCase {
  readonly symptoms: SymptomList<Rule>;
  /** Some probe diverges. */
  readonly changesOutcome: boolean;
}

/** Differences that no symptom so far explains. If no probe diverges, they are harmless. */
export function explainResidualDifferences(given: LeftCase): void {
  const {item, differences, symptoms, changesOutcome} = given;
  const explanations = explanationsOf(item, symptoms.all);
  const left = differences.filter(difference => !isExplained(difference, explanations));
  const rejects = left.filter(isReject);
  for (const {rule} of rejects) explainResidualReject(given, rule);
  const loud = changesOutcome && symptoms.all.every(({kind}) => kind === 'unexpected-reject' || kind === 'health-check-port-blocked');
  const rest = left.filter(difference => !rejects.includes(difference));
  for (const group of residualGroups<Rule, PortDifference>(rest)) sayGroup(given, group, loud);
}

function isReject({kind, table, rule}: PortDifference): boolean {
  return kind === 'extra' && table === 'filter' && (rule.target?.name === 'REJECT' || rule.target?.name === 'DROP');
}

function explainResidualReject({item: {port, endpoints}, expected, symptoms, changesOutcome}: LeftCase, rule: Rule): void {
  if (!entriesOf(port, expected.context).some(entry => isEntryRule(rule, entry))) {
    const where = entryOfRule(rule);
    return symptoms.say(staleEntry(where, {answers: false, rule}), `stale entry ${where}`);
  }
  const reach = changesOutcome ? 'it may be reached' : 'no packet reaches it as long as the nat rules are in place';
  const detail = endpoints.hasAny
    ? `a rule refuses or drops its packets although it has endpoints; ${reach}`
    : 'a rule refuses or drops its packets in another way than kube-proxy does';
  const severity = changesOutcome ? ('error' as const) : ('info' as const);
  symptoms.say({kind: 'unexpected-reject', severity, detail, expected: [], actual: [rule]}, `left ${rule.line}`);
}

function sayGroup({symptoms, changesOutcome}: LeftCase, group: ResidualGroup<PortDifference, Rule>, loud: boolean): void {
  const {kind, differences, symptom, what, evidence} = group;
  const places = [...new Set(differences.map(({table, chain}) => `${table}/${chain}`))].slice(0, 3).join(', ');
  const harmless = changesOutcome ? 'the other findings of this port show the effect on traffic' : 'no traffic is affected';
  const count = differences.length === 1 ? 'a rule' : `${differences.length} rules`;
  const detail = `${count} ${what} in ${places}: ${loud ? 'traffic is affected' : harmless}`;
  symptoms.say({kind: symptom, severity: loud ? 'error' : 'info', detail, ...evidence}, `left ${kind}`);
}
