import type {RuleText} from '../../../model/ruleset.ts';
import type {SymptomKind} from '../../symptoms/symptom.ts';
import type {SymptomList} from '../../symptoms/symptom-list.ts';
import type {NftPortCase} from '../nft-case.ts';
import type {NftPortDifference} from '../nft-case.ts';
import {isRefusal} from './nft-semantics.ts';

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
  for (const kind of ['missing', 'extra', 'duplicate', 'reordered'] as const)
    leftGroup(
      kind,
      rest.filter(difference => difference.kind === kind),
      {symptoms, changesOutcome},
    );
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

interface Left {
  readonly symptoms: SymptomList<RuleText>;
  readonly changesOutcome: boolean;
}

function leftGroup(kind: NftPortDifference['kind'], group: readonly NftPortDifference[], {symptoms, changesOutcome}: Left): void {
  if (group.length === 0) return;
  const rules = group.map(({rule}) => rule).slice(0, 6);
  const places = [...new Set(group.map(({name}) => name))].slice(0, 3).join(', ');
  const pathOutcome = changesOutcome ? 'traffic is affected' : 'no traffic is affected';
  const severity = changesOutcome ? ('error' as const) : ('info' as const);
  const count = countText(group);
  const [symptom, words] = wordsOf(kind);
  const evidence = kind === 'missing' ? {expected: rules, actual: []} : {expected: [], actual: rules};
  symptoms.say({kind: symptom, severity, detail: `${count} ${words} ${places}: ${pathOutcome}`, ...evidence}, `left ${kind}`);
}

function countText(group: readonly NftPortDifference[]): string {
  const kinds = new Set(group.map(({what}) => what));
  const noun = kinds.size > 1 || kinds.has('hook') ? 'rule' : ([...kinds][0] ?? 'rule');
  if (group.length > 1) return `${group.length} ${noun}s`;
  return noun === 'element' ? 'an element' : `a ${noun}`;
}

function wordsOf(kind: NftPortDifference['kind']): readonly [SymptomKind, string] {
  switch (kind) {
    case 'missing':
      return ['missing-rule', "of kube-proxy's missing in"];
    case 'extra':
      return ['unexpected-rule', 'that kube-proxy would not have written in'];
    case 'duplicate':
      return ['duplicate-rule', 'twice in'];
    case 'reordered':
      return ['unexpected-rule', 'in another order in'];
  }
}
