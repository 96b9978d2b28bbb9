import type {RuleText} from '../../../model/ruleset.ts';
import {type ResidualGroup, residualGroups} from '../../symptoms/residual-differences.ts';
import type {SymptomList} from '../../symptoms/symptom-list.ts';
import type {NftPortCase} from '../nft-case.ts';
import type {NftPortDifference} from '../nft-case.ts';
import {isRefusal} from './nft-rule-roles.ts';

/** Differences that no symptom so far explains. If no probe diverges, they are harmless. */
export function explainNftResidualDifferences(
  {item, differences}: NftPortCase,
  symptoms: SymptomList<RuleText>,
  changesOutcome: boolean,
): void {
  const said = new Set(symptoms.all.flatMap(({expected, actual}) => [...expected, ...actual]));
  // One cause is one finding: the symptoms so far cover the other differences.
  if (symptoms.all.some(({severity}) => severity !== 'info')) return;
  const left = differences.filter(({rule}) => !said.has(rule));
  const refusals = left.filter(difference => difference.kind === 'extra' && isRefusal(difference));
  for (const {rule} of refusals) leftRefusal(rule, item.endpoints.hasAny, symptoms);
  const unlisted = left.filter(({kind, name}) => kind === 'missing' && name === 'cluster-ips');
  if (unlisted.length > 0) leftUnlisted(unlisted, symptoms);
  const rest = left.filter(difference => !refusals.includes(difference) && !unlisted.includes(difference));
  for (const group of residualGroups<RuleText, NftPortDifference>(rest)) leftGroup(group, symptoms, changesOutcome);
}

function leftRefusal(rule: RuleText, hasAny: boolean, symptoms: SymptomList<RuleText>): void {
  const detail = hasAny
    ? 'a rule refuses or drops its packets although it has endpoints; no packet reaches it as long as the nat rules are in place'
    : 'a rule refuses or drops its packets in another way than kube-proxy does';
  symptoms.say({kind: 'unexpected-reject', severity: 'info', detail, expected: [], actual: [rule]}, `left ${rule.text}`);
}

/** No packet of the Service port matches it. */
function leftUnlisted(unlisted: readonly NftPortDifference[], symptoms: SymptomList<RuleText>): void {
  const detail = 'its cluster IP is not in cluster-ips: connections to ports that it does not have are not refused';
  symptoms.say({kind: 'missing-rule', severity: 'info', detail, expected: unlisted.map(({rule}) => rule), actual: []}, 'unlisted');
}

function leftGroup(
  {kind, differences, symptom, what, evidence}: ResidualGroup<NftPortDifference, RuleText>,
  symptoms: SymptomList<RuleText>,
  changesOutcome: boolean,
): void {
  const places = [...new Set(differences.map(({name}) => name))].slice(0, 3).join(', ');
  const effect = changesOutcome ? 'traffic is affected' : 'no traffic is affected';
  const severity = changesOutcome ? ('error' as const) : ('info' as const);
  symptoms.say({kind: symptom, severity, detail: `${countText(differences)} ${what} in ${places}: ${effect}`, ...evidence}, `left ${kind}`);
}

function countText(group: readonly NftPortDifference[]): string {
  const kinds = new Set(group.map(({what}) => what));
  const noun = kinds.size > 1 || kinds.has('hook') ? 'rule' : ([...kinds][0] ?? 'rule');
  if (group.length > 1) return `${group.length} ${noun}s`;
  return noun === 'element' ? 'an element' : `a ${noun}`;
}
