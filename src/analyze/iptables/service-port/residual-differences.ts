import type {Rule} from '../../../model/ruleset.ts';
import {entriesOf} from '../../outcomes/entries.ts';
import type {SymptomKind} from '../../symptoms/symptom.ts';
import type {SymptomList} from '../../symptoms/symptom-list.ts';
import {entryOfRule, isEntryRule} from '../entry-rule.ts';
import {Explained} from './explained-differences.ts';
import type {PortCase, PortDifference} from './port-differences.ts';

export interface LeftCase extends PortCase {
  readonly symptoms: SymptomList<Rule>;
  /** Some probe diverges. */
  readonly changesOutcome: boolean;
}

/** Differences that no symptom so far explains. If no probe diverges, they are harmless. */
export function explainResidualDifferences(given: LeftCase): void {
  const {item, differences, symptoms, changesOutcome} = given;
  const explained = new Explained(item, symptoms.all);
  const left = differences.filter(difference => !explained.covers(difference));
  const rejects = left.filter(isReject);
  for (const {rule} of rejects) explainResidualReject(given, rule);
  const loud = changesOutcome && symptoms.all.every(({kind}) => kind === 'unexpected-reject' || kind === 'health-check-port-blocked');
  for (const kind of ['missing', 'extra', 'duplicate', 'reordered'] as const) {
    const group = left.filter(difference => difference.kind === kind && !rejects.includes(difference));
    if (group.length > 0) sayGroup(given, {kind, group, loud});
  }
}

function isReject({kind, table, rule}: PortDifference): boolean {
  return kind === 'extra' && table === 'filter' && (rule.target?.name === 'REJECT' || rule.target?.name === 'DROP');
}

function explainResidualReject({item: {port, endpoints}, expected, symptoms, changesOutcome}: LeftCase, rule: Rule): void {
  if (!entriesOf(port, expected.context).some(entry => isEntryRule(rule, entry))) {
    const where = entryOfRule(rule);
    const detail = `still refuses packets to ${where}, which is none of its entries in the API (any more)`;
    return symptoms.say({kind: 'stale-service', severity: 'info', detail, expected: [], actual: [rule]}, `stale entry ${where}`);
  }
  const reach = changesOutcome ? 'it may be reached' : 'no packet reaches it as long as the nat rules are in place';
  const detail = endpoints.hasAny
    ? `a rule refuses or drops its packets although it has endpoints; ${reach}`
    : 'a rule refuses or drops its packets in another way than kube-proxy does';
  const severity = changesOutcome ? ('error' as const) : ('info' as const);
  symptoms.say({kind: 'unexpected-reject', severity, detail, expected: [], actual: [rule]}, `left ${rule.line}`);
}

interface DifferenceGroup {
  readonly kind: PortDifference['kind'];
  readonly group: readonly PortDifference[];
  /** Some probe diverges, and no symptom so far explains it. */
  readonly loud: boolean;
}

function sayGroup({symptoms, changesOutcome}: LeftCase, {kind, group, loud}: DifferenceGroup): void {
  const rules = group.map(({rule}) => rule).slice(0, 6);
  const places = [...new Set(group.map(({table, chain}) => `${table}/${chain}`))].slice(0, 3).join(', ');
  const harmless = changesOutcome ? 'the other findings of this port show the effect on traffic' : 'no traffic is affected';
  const count = group.length === 1 ? 'a rule' : `${group.length} rules`;
  const {symptom, what} = wording[kind];
  const detail = `${count} ${what} in ${places}: ${loud ? 'traffic is affected' : harmless}`;
  const evidence = kind === 'missing' ? {expected: rules, actual: []} : {expected: [], actual: rules};
  symptoms.say({kind: symptom, severity: loud ? 'error' : 'info', detail, ...evidence}, `left ${kind}`);
}

const wording: Readonly<Record<PortDifference['kind'], {readonly symptom: SymptomKind; readonly what: string}>> = {
  missing: {symptom: 'missing-rule', what: "of kube-proxy's missing"},
  extra: {symptom: 'unexpected-rule', what: 'that kube-proxy would not have written'},
  duplicate: {symptom: 'duplicate-rule', what: 'twice'},
  reordered: {symptom: 'unexpected-rule', what: 'in another order'},
};
