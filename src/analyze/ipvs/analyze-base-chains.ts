import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {Difference} from '../../model/difference.ts';
import type {Severity} from '../../model/finding.ts';
import type {ChainSource, Rule, Ruleset} from '../../model/ruleset.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import {listChain, withChain} from '../iptables/listed-chains.ts';
import {missingHook} from '../iptables/missing-hook.ts';
import {residualGroups} from '../symptoms/residual-differences.ts';
import type {PortSymptom} from '../symptoms/symptom-list.ts';
import type {SymptomKind} from '../symptoms/symptom.ts';
import type {BaseRuleHarm, HarmOf} from './base-rule-probes.ts';
import {withChainsOf} from './base-rule-source.ts';
import type {IpvsSides} from './ipvs-sides.ts';

export interface IpvsBaseRulesCase {
  readonly expected: ExpectedIpvs;
  readonly ruleset: Ruleset;
  readonly sides: IpvsSides;
  /** Null when they were not read. */
  readonly sets: ReadonlyMap<string, IpSet> | null;
  readonly nodeName: string;
}

export type BaseRuleDifference = Difference<ServedPort>;

/** A symptom of the node. */
export type NodeSymptom = PortSymptom<Rule>;

interface BaseChainsCase extends IpvsBaseRulesCase {
  /** The expected base rules. */
  readonly baseRules: ChainSource;
  readonly harmOf: HarmOf;
}

/** A jump that is missing from a base chain. */
export function analyzeHook({table, chain, rule}: BaseRuleDifference, {ruleset, baseRules, harmOf}: BaseChainsCase): NodeSymptom {
  const {state, closest} = missingHook(ruleset, rule);
  const target = rule.target?.name ?? '';
  const evidence = {expected: [rule], actual: closest};
  if (target === 'KUBE-POSTROUTING') return {kind: 'postrouting-broken', detail: `${state}: nothing is masqueraded`, ...evidence};
  if (target === 'KUBE-FORWARD' && ruleset.chain(table, chain)?.policy === 'DROP') {
    const detail = `${state}, and FORWARD drops what no rule accepts: answers of pods are lost`;
    return {kind: 'forward-blocked', detail, ...evidence};
  }
  const harm = harmOf(withoutJump(baseRules, rule));
  return {
    ...{kind: 'services-chain-not-hooked', severity: severityOf(harm, 'warning')},
    ...{detail: `${state}: ${consequences[harm]}`, ...evidence},
  };
}

/** The expected base rules without one jump. */
function withoutJump(baseRules: ChainSource, {table, chain, target}: Rule): ChainSource {
  const whole = baseRules.chain(table, chain);
  if (whole === undefined) return baseRules;
  const rules = whole.rules().filter(rule => rule.target?.name !== target?.name);
  return withChain(baseRules, whole, listChain(whole, rules));
}

/** Differences of kube-proxy's own chains: one symptom for each chain, or group of chains, whose severity is the effect on packets. */
export function analyzeChains(differences: readonly BaseRuleDifference[], given: BaseChainsCase): readonly NodeSymptom[] {
  const chains = Map.groupBy(differences, ({table, chain}) => groups.get(`${table}/${chain}`) ?? `${table}/${chain}`);
  return [...chains].flatMap(([key, own]) => analyzeChain(key, own, given));
}

function analyzeChain(key: string, differences: readonly BaseRuleDifference[], given: BaseChainsCase): readonly NodeSymptom[] {
  const members = new Set([...groups].flatMap(([chain, group]) => (group === key ? [chain] : [])));
  const chains = members.size > 0 ? members : new Set([key]);
  const evidence = {
    expected: differences.flatMap(({kind, rule}) => (kind === 'missing' ? [rule] : [])).slice(0, 6),
    actual: differences.flatMap(({kind, rule}) => (kind === 'missing' ? [] : [rule])).slice(0, 6),
  };
  const where = [...chains].join(' and ');
  if (key === 'filter/KUBE-FORWARD' && blocksForward(differences, given)) {
    const detail = `the rules of ${where} are not those that kube-proxy writes: answers of pods are dropped`;
    return [{kind: 'forward-blocked', detail, ...evidence}];
  }
  if (key === 'filter/KUBE-NODE-PORT' && blocksHealthChecks(differences, given)) {
    const detail = 'the rule that accepts health checks is missing: a load balancer may consider the node unhealthy';
    return [{kind: 'health-check-port-blocked', detail, ...evidence}];
  }
  const harm = given.harmOf(withChainsOf(given.baseRules, given.ruleset, chains));
  if (harm === 'none') return harmless(differences, where);
  const detail = `the rules of ${where} are not those that kube-proxy writes: ${consequences[harm]}`;
  const refuses = harm === 'refuses' ? ({refuses: true} as const) : {};
  return [{kind: kindOf(key, harm, differences), severity: severityOf(harm, 'info'), ...refuses, detail, ...evidence}];
}

function harmless(differences: readonly BaseRuleDifference[], where: string): readonly NodeSymptom[] {
  return residualGroups<Rule, BaseRuleDifference>(differences).map(({symptom, what, evidence, differences: group}) => {
    const count = group.length === 1 ? 'a rule' : `${group.length} rules`;
    const words = what.replace("of kube-proxy's ", '');
    return {kind: symptom, severity: 'info', detail: `${count} of ${where} ${words}: no traffic is affected`, ...evidence};
  });
}

/** Requests pass IPVS and not FORWARD; replies of pods do pass it. */
function blocksForward(differences: readonly BaseRuleDifference[], {ruleset}: BaseChainsCase): boolean {
  const policy = ruleset.chain('filter', 'FORWARD')?.policy;
  return differences.some(({kind, rule}) =>
    kind === 'missing' ? policy === 'DROP' : ['DROP', 'REJECT'].includes(rule.target?.name ?? ''),
  );
}

function blocksHealthChecks(differences: readonly BaseRuleDifference[], {expected}: BaseChainsCase): boolean {
  const checked = (expected.members.get('KUBE-HEALTH-CHECK-NODE-PORT')?.size ?? 0) > 0;
  return checked && differences.some(({kind}) => kind === 'missing');
}

/** Chains that only work together. */
const groups: ReadonlyMap<string, string> = new Map([
  ['nat/KUBE-POSTROUTING', 'mark'],
  ['nat/KUBE-MARK-MASQ', 'mark'],
]);

const consequences: Readonly<Record<BaseRuleHarm, string>> = {
  refuses: 'packets that should reach an endpoint are refused or lost',
  admits: 'loadBalancerSourceRanges are not enforced',
  'keeps-source': 'packets that must be masqueraded keep their source address, and their connections never get a reply',
  masquerades: "packets are masqueraded differently from kube-proxy's settings",
  exposes: 'ports of the node itself can be reached at the addresses of Services',
  none: 'no traffic is affected',
};

function severityOf(harm: BaseRuleHarm, harmless: Severity): Severity {
  if (harm === 'none') return harmless;
  return harm === 'masquerades' || harm === 'exposes' ? 'warning' : 'error';
}

function kindOf(key: string, harm: BaseRuleHarm, differences: readonly BaseRuleDifference[]): SymptomKind {
  if (harm === 'refuses') return isFirewall(key) ? 'source-ranges-mismatch' : 'unexpected-reject';
  if (harm === 'admits') return 'source-ranges-mismatch';
  if (harm === 'exposes') return differences.some(({kind}) => kind === 'missing') ? 'missing-rule' : 'unexpected-rule';
  const hairpin = differences.every(({rule}) => setOf(rule)?.endsWith('LOOP-BACK'));
  return key === 'mark' && !hairpin ? 'postrouting-broken' : 'masquerade-mismatch';
}

function isFirewall(key: string): boolean {
  return /FIREWALL$|OUT-FILTER$/.test(key);
}

/** The ipset that a rule asks for. */
export function setOf({matches}: Rule): string | null {
  return matches.find(({name}) => name === 'set')?.options.find(({flag}) => flag === '--match-set')?.values[0] ?? null;
}
