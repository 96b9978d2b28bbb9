import {compareRulesets} from '../../compare/compare-rulesets.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {setName} from '../../expect/ipvs/set-names.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';
import {textsOf} from '../iptables/rule-texts.ts';
import {isBeyondTheCut} from '../iptables/what-was-read.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {
  analyzeChains,
  analyzeHook,
  type BaseRuleDifference,
  type NodeSymptom,
  type IpvsBaseRulesCase,
  setOf,
} from './analyze-base-chains.ts';
import {baseRuleHarm} from './base-rule-probes.ts';
import {baseRuleSource, outFilterChain} from './base-rule-source.ts';

/** What is wrong with the iptables rules around IPVS: they masquerade, filter by source and keep the node's own ports off the addresses of Services. */
export function analyzeIpvsBaseRules(given: IpvsBaseRulesCase): readonly Symptom<Rule>[] {
  const {expected, ruleset, sides, nodeName} = given;
  const all = compareBaseRules(expected, ruleset).filter(difference => isReportedHere(difference, given));
  const gone = ['nat', 'filter'].filter(table => holdsNothing(expected, ruleset, table));
  const detector = otherDetector(all.filter(({table}) => !gone.includes(table)));
  const unexpected = textsOf(
    detector.left.flatMap(({kind, rule}) => (kind === 'extra' ? [rule] : [])),
    ruleset,
  );
  const harmOf = baseRuleHarm(expected, sides.expected, {nodeName, unexpected});
  const chains = {...given, baseRules: baseRuleSource(expected), harmOf};
  const symptoms = [
    ...gone.map(tableGone),
    ...detector.symptoms,
    ...detector.left.filter(isHook).map(hook => analyzeHook(hook, chains)),
    ...analyzeChains(
      detector.left.filter(difference => !isHook(difference)),
      chains,
    ),
  ];
  return symptoms.map(symptom => {
    const actual = symptom.actual.filter(({line}) => line > 0);
    return {...symptom, actual, family: expected.context.family, port: null};
  });
}

/** Not reported here: third-party rules in base chains, rules after the end of a truncated dump, and effects of a set's content. */
function isReportedHere({kind, table, chain, rule, owner}: BaseRuleDifference, {expected, ruleset, sets}: IpvsBaseRulesCase): boolean {
  if (kind !== 'missing' && !chain.startsWith('KUBE-')) return false;
  if (kind === 'missing' && isBeyondTheCut(ruleset, table, chain)) return false;
  // The walk of a Service's packets covers its own rule.
  if (owner !== null) return false;
  const set = setOf(rule);
  if (set === null || sets === null || alwaysWritten.has(`${table}/${chain}`)) return true;
  const filled = (sets.get(set)?.elements.length ?? 0) > 0;
  const wanted = [...expected.members].some(([role, members]) => setName(role, expected.context.family) === set && members.size > 0);
  return kind === 'missing' ? filled : wanted || !filled;
}

function tableGone(table: string): NodeSymptom {
  const detail =
    table === 'nat'
      ? "table nat holds none of kube-proxy's rules: nothing is masqueraded, so connections from outside the node to pods on other nodes never get a reply"
      : "table filter holds none of kube-proxy's rules: loadBalancerSourceRanges are not enforced, and ports of the node answer on the addresses of Services";
  return {kind: 'no-service-rules', detail, expected: [], actual: [], ...(table === 'nat' ? {} : {severity: 'warning'})};
}

interface DetectorResult {
  readonly symptoms: readonly NodeSymptom[];
  readonly left: readonly BaseRuleDifference[];
}

/** The one rule that detects pods differs, and nothing else. */
function otherDetector(differences: readonly BaseRuleDifference[]): DetectorResult {
  const own = differences.filter(({chain, rule}) => chain === 'KUBE-SERVICES' && isClusterIPMasquerade(rule));
  const missing = own.find(({kind}) => kind === 'missing')?.rule;
  const extra = own.find(({kind}) => kind === 'extra')?.rule;
  if (missing === undefined || extra === undefined) return {symptoms: [], left: differences};
  const detail = `the rules treat ${podsOf(extra)} as pods, but kube-proxy's settings say ${podsOf(missing)}: kube-proxy runs with other settings than the ones that were read`;
  const symptom = {kind: 'cluster-cidr-mismatch', detail, expected: [missing], actual: [extra]} as const;
  return {symptoms: [symptom], left: differences.filter(difference => !own.includes(difference))};
}

function compareBaseRules(expected: ExpectedIpvs, ruleset: Ruleset): readonly BaseRuleDifference[] {
  const [table = '', chain = ''] = outFilterChain.split('/');
  return compareRulesets(
    {
      owners: expected.ports,
      rulesOf: owner => ({own: new Map(), shared: expected.outFilter(owner).map(text => ({table, chain, text}))}),
      baseRules: () => expected.baseRules,
      open: baseChains,
      unordered: new Set([outFilterChain]),
    },
    ruleset,
  ).differences;
}

const baseChains = new Set(['filter/INPUT', 'filter/FORWARD', 'filter/OUTPUT', 'nat/PREROUTING', 'nat/OUTPUT', 'nat/POSTROUTING']);

/** Their rules match sets, whether these have elements or not. */
const alwaysWritten = new Set(['filter/KUBE-IPVS-FILTER', 'filter/KUBE-NODE-PORT']);

function isHook({kind, chain}: BaseRuleDifference): boolean {
  return kind === 'missing' && !chain.startsWith('KUBE-');
}

function isClusterIPMasquerade(rule: Rule): boolean {
  return rule.target?.name === 'KUBE-MARK-MASQ' && (setOf(rule)?.endsWith('CLUSTER-IP') ?? false);
}

/** The connections that are not masqueraded, as text. */
function podsOf(rule: Rule): string {
  const option = rule.options.find(({flag, negated}) => negated && (flag === '-s' || flag === '-i'));
  if (option !== undefined) return `clients ${option.flag === '-s' ? 'in' : 'behind'} ${option.values[0]}`;
  const directions = rule.matches.find(({name}) => name === 'set')?.options[0]?.values[1];
  return directions?.startsWith('src') ? 'all clients (no detector for pods)' : 'no clients (masqueradeAll)';
}

/** The table was read to its end, and none of kube-proxy's chains in it holds a rule. */
function holdsNothing({baseRules}: ExpectedIpvs, ruleset: Ruleset, table: string): boolean {
  if (ruleset.tables.get(table)?.complete !== true) return false;
  const own = [...baseRules].filter(([key, rules]) => key.startsWith(`${table}/KUBE-`) && rules.length > 0);
  return own.every(([key]) => (ruleset.chain(table, key.split('/')[1] ?? '')?.ruleCount ?? 0) === 0);
}
