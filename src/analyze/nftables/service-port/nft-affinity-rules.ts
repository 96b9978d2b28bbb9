import type {RuleText} from '../../../model/ruleset.ts';
import {configuredAffinity} from '../../symptoms/configured-affinity.ts';
import type {PortSymptom, SymptomList} from '../../symptoms/symptom-list.ts';
import type {NftPortCase} from '../nft-case.ts';
import type {NftPortDifference} from '../nft-case.ts';

/** Session affinity that is unexpected, missing, or has another timeout, which a walk does not show. */
export function nftAffinityRules(given: NftPortCase, symptoms: SymptomList<RuleText>): PortSymptom<RuleText> | null {
  const {item, differences} = given;
  if (symptoms.has('broken-jump', 'service-not-programmed')) return null;
  const rules = differences.filter(({what, rule}) => what === 'rule' && /^ip6? saddr @affinity-/.test(rule.text));
  const extra = rules.filter(({kind}) => kind === 'extra');
  const other = differences.filter(({what, kind}) => what === 'set' && kind === 'extra');
  const {affinitySeconds} = item.port;
  const configured = configuredAffinity(item.port);
  if (affinitySeconds === null ? extra.length > 0 : other.length > 0) {
    const seconds = timeoutOf(given, [...extra, ...other]);
    const detail = `session affinity${seconds === null ? '' : ` of ${seconds} s`} is programmed, and ${configured}`;
    return {kind: 'session-affinity-mismatch', detail, ...evidence([...rules, ...differences.filter(isSet)])};
  }
  if (affinitySeconds === null || !remembersNobody(given, rules)) return null;
  const detail = `session affinity is missing in ${rules.length === 1 ? 'a rule' : 'rules'}: ${configured}`;
  return {kind: 'session-affinity-mismatch', detail, ...evidence(rules)};
}

function isSet({what}: NftPortDifference): boolean {
  return what === 'set';
}

function timeoutOf({actual}: NftPortCase, differences: readonly NftPortDifference[]): number | null {
  for (const {name, rule} of differences) {
    const set = /@(affinity-\S+)/.exec(rule.text)?.[1] ?? name;
    const timeout = actual.set(set)?.timeout ?? null;
    if (timeout !== null) return timeout;
  }
  return null;
}

/** The Service's chains exist, and none of them matches known clients. */
function remembersNobody({item, actual}: NftPortCase, rules: readonly NftPortDifference[]): boolean {
  const chains = [item.names.service, item.names.local].flatMap(name => actual.chain(name) ?? []).filter(({ruleCount}) => ruleCount > 0);
  return rules.length > 0 && chains.length > 0 && chains.every(chain => !chain.text().includes('@affinity-'));
}

function evidence(differences: readonly NftPortDifference[]): {
  readonly expected: readonly RuleText[];
  readonly actual: readonly RuleText[];
} {
  const rules = (missing: boolean): readonly RuleText[] =>
    differences.flatMap(({kind, rule}) => ((kind === 'missing') === missing ? [rule] : [])).slice(0, 4);
  return {expected: rules(true), actual: rules(false)};
}
