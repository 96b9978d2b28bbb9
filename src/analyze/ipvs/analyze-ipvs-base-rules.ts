import {compareRulesets} from '../../compare/compare-rulesets.ts';
import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {setName} from '../../expect/ipvs/set-names.ts';
import type {Difference} from '../../model/difference.ts';
import type {Severity} from '../../model/finding.ts';
import type {Chain, ChainSource, Rule, Ruleset} from '../../model/ruleset.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import {residualGroups} from '../symptoms/residual-differences.ts';
import type {Symptom, SymptomKind} from '../symptoms/symptom.ts';
import {isBeyondTheCut} from '../iptables/what-was-read.ts';
import {baseRuleSource, outFilterChain, withChains} from './base-rule-source.ts';
import {type BaseRuleHarm, BaseRuleProbes} from './base-rule-probes.ts';
import type {IpvsSides} from './ipvs-sides.ts';

export interface IpvsBaseRulesCase {
  readonly expected: ExpectedIpvs;
  readonly ruleset: Ruleset;
  readonly sides: IpvsSides;
  /** Null when they were not read. */
  readonly sets: ReadonlyMap<string, IpSet> | null;
  readonly nodeName: string;
}

type BaseRuleDifference = Difference<ServedPort>;

/** What is wrong with the iptables rules around IPVS: they masquerade, filter by source and keep the node's own ports off the addresses of Services. */
export function analyzeIpvsBaseRules(given: IpvsBaseRulesCase): readonly Symptom<Rule>[] {
  return new BaseRuleAnalysis(given).analyze();
}

class BaseRuleAnalysis {
  readonly #case: IpvsBaseRulesCase;
  readonly #baseRules: ChainSource;
  readonly #symptoms: Symptom<Rule>[] = [];
  #comparisons: BaseRuleProbes | null = null;

  constructor(given: IpvsBaseRulesCase) {
    this.#case = given;
    this.#baseRules = baseRuleSource(given.expected);
  }

  analyze(): readonly Symptom<Rule>[] {
    const {expected, ruleset} = this.#case;
    const all = compareBaseRules(expected, ruleset).filter(difference => this.#counts(difference));
    const gone = ['nat', 'filter'].filter(table => holdsNothing(expected, ruleset, table));
    for (const table of gone) this.#tableGone(table);
    const left = all.filter(({table}) => !gone.includes(table));
    const rest = this.#analyzeDetector(left);
    for (const hook of rest.filter(isHook)) this.#analyzeHook(hook);
    const chains = Map.groupBy(
      rest.filter(difference => !isHook(difference)),
      ({table, chain}) => groups.get(`${table}/${chain}`) ?? `${table}/${chain}`,
    );
    for (const [key, differences] of chains) this.#analyzeChain(key, differences);
    return this.#symptoms;
  }

  /** Rules of others in base chains, what is beyond a cut, and what only follows from what a set holds, are not said here. */
  #counts({kind, table, chain, rule, owner}: BaseRuleDifference): boolean {
    const {expected, ruleset, sets} = this.#case;
    if (kind !== 'missing' && !chain.startsWith('KUBE-')) return false;
    if (kind === 'missing' && isBeyondTheCut(ruleset, table, chain)) return false;
    // Of a Service's own rule the walk of its packets tells.
    if (owner !== null) return false;
    const set = setOf(rule);
    if (set === null || sets === null || alwaysWritten.has(`${table}/${chain}`)) return true;
    const filled = (sets.get(set)?.elements.length ?? 0) > 0;
    const wanted = [...expected.members].some(([role, members]) => setName(role, expected.context.family) === set && members.size > 0);
    return kind === 'missing' ? filled : wanted || !filled;
  }

  #tableGone(table: string): void {
    const detail =
      table === 'nat'
        ? "table nat holds none of kube-proxy's rules: nothing is masqueraded, so connections from outside the node to pods on other nodes never get a reply"
        : "table filter holds none of kube-proxy's rules: loadBalancerSourceRanges are not enforced, and ports of the node answer on the addresses of Services";
    this.#say({kind: 'no-service-rules', detail, expected: [], actual: [], ...(table === 'nat' ? {} : {severity: 'warning'})});
  }

  /** The one rule that tells pods from others differs in nothing else. */
  #analyzeDetector(differences: readonly BaseRuleDifference[]): readonly BaseRuleDifference[] {
    const own = differences.filter(({chain, rule}) => chain === 'KUBE-SERVICES' && isClusterIPMasquerade(rule));
    const missing = own.find(({kind}) => kind === 'missing')?.rule;
    const extra = own.find(({kind}) => kind === 'extra')?.rule;
    if (missing === undefined || extra === undefined) return differences;
    const detail = `the rules treat ${podsOf(extra)} as pods, but kube-proxy's settings say ${podsOf(missing)}: kube-proxy runs with other settings than the ones that were read`;
    this.#say({kind: 'cluster-cidr-mismatch', detail, expected: [missing], actual: [extra]});
    return differences.filter(difference => !own.includes(difference));
  }

  #analyzeHook({table, chain, rule}: BaseRuleDifference): void {
    const {ruleset} = this.#case;
    const target = rule.target?.name ?? '';
    const closest =
      ruleset
        .chain(table, chain)
        ?.rules()
        .filter(found => found.target?.name === target) ?? [];
    const without = this.#harmOf(this.#withoutJump(table, chain, target));
    const state =
      closest.length === 0
        ? `${target} is not reached from ${table}/${chain}`
        : `the jump from ${table}/${chain} to ${target} has other conditions`;
    const evidence = {expected: [rule], actual: closest.slice(0, 3)};
    if (target === 'KUBE-POSTROUTING')
      return this.#say({kind: 'postrouting-broken', detail: `${state}: nothing is masqueraded`, ...evidence});
    const drops = ruleset.chain(table, chain)?.policy === 'DROP';
    if (target === 'KUBE-FORWARD' && drops)
      return this.#say({
        kind: 'forward-blocked',
        detail: `${state}, and FORWARD drops what no rule accepts: answers of pods are lost`,
        ...evidence,
      });
    const severity = severityOf(without, 'warning');
    this.#say({kind: 'services-chain-not-hooked', severity, detail: `${state}: ${consequences[without]}`, ...evidence});
  }

  #analyzeChain(key: string, differences: readonly BaseRuleDifference[]): void {
    const members = new Set([...groups].flatMap(([chain, group]) => (group === key ? [chain] : [])));
    const chains = members.size > 0 ? members : new Set([key]);
    const harm = this.#harmOf(withChains(this.#baseRules, this.#case.ruleset, chains));
    const evidence = {
      expected: differences.flatMap(({kind, rule}) => (kind === 'missing' ? [rule] : [])).slice(0, 6),
      actual: differences.flatMap(({kind, rule}) => (kind === 'missing' ? [] : [rule])).slice(0, 6),
    };
    const where = [...chains].join(' and ');
    if (key === 'filter/KUBE-FORWARD' && this.#blocksForward(differences)) {
      const detail = `the rules of ${where} are not those that kube-proxy writes: answers of pods are dropped`;
      return this.#say({kind: 'forward-blocked', detail, ...evidence});
    }
    if (key === 'filter/KUBE-NODE-PORT' && this.#blocksHealthChecks(differences)) {
      const detail = 'the rule that accepts health checks is missing: a load balancer may consider the node unhealthy';
      return this.#say({kind: 'health-check-port-blocked', detail, ...evidence});
    }
    if (harm === 'none') return this.#harmless(differences, where);
    const detail = `the rules of ${where} are not those that kube-proxy writes: ${consequences[harm]}`;
    this.#say({kind: kindOf(key, harm, differences), severity: severityOf(harm, 'info'), detail, ...evidence});
  }

  #harmless(differences: readonly BaseRuleDifference[], where: string): void {
    for (const {symptom, what, evidence, differences: group} of residualGroups<Rule, BaseRuleDifference>(differences)) {
      const count = group.length === 1 ? 'a rule' : `${group.length} rules`;
      const words = what.replace("of kube-proxy's ", '');
      this.#say({kind: symptom, severity: 'info', detail: `${count} of ${where} ${words}: no traffic is affected`, ...evidence});
    }
  }

  /** Requests pass IPVS and not FORWARD; the answers of pods do pass it. */
  #blocksForward(differences: readonly BaseRuleDifference[]): boolean {
    const policy = this.#case.ruleset.chain('filter', 'FORWARD')?.policy;
    return differences.some(({kind, rule}) =>
      kind === 'missing' ? policy === 'DROP' : ['DROP', 'REJECT'].includes(rule.target?.name ?? ''),
    );
  }

  #blocksHealthChecks(differences: readonly BaseRuleDifference[]): boolean {
    const checked = (this.#case.expected.members.get('KUBE-HEALTH-CHECK-NODE-PORT')?.size ?? 0) > 0;
    return checked && differences.some(({kind}) => kind === 'missing');
  }

  #harmOf(rules: ChainSource): BaseRuleHarm {
    const {expected, sides, nodeName} = this.#case;
    this.#comparisons ??= new BaseRuleProbes(expected, sides.expected, nodeName);
    return this.#comparisons.harmOf(rules);
  }

  /** The frame as it should be, without one jump. */
  #withoutJump(table: string, name: string, target: string): ChainSource {
    const whole = this.#baseRules.chain(table, name);
    const rules = whole?.rules().filter(rule => rule.target?.name !== target) ?? [];
    const chain: Chain | undefined =
      whole === undefined
        ? undefined
        : {...whole, ruleCount: rules.length, rules: () => rules, text: () => rules.map(({text}) => text).join('\n')};
    return {
      ...this.#baseRules,
      chain: (inTable, wanted) => (inTable === table && wanted === name ? chain : this.#baseRules.chain(inTable, wanted)),
    };
  }

  #say(symptom: Omit<Symptom<Rule>, 'family' | 'port'>): void {
    const actual = symptom.actual.filter(({line}) => line > 0);
    this.#symptoms.push({...symptom, actual, family: this.#case.expected.context.family, port: null});
  }
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

/** Chains that only do something together. */
const groups: ReadonlyMap<string, string> = new Map([
  ['nat/KUBE-POSTROUTING', 'mark'],
  ['nat/KUBE-MARK-MASQ', 'mark'],
]);

/** Their rules ask for sets whether these hold anything or not. */
const alwaysWritten = new Set(['filter/KUBE-IPVS-FILTER', 'filter/KUBE-NODE-PORT']);

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
  if (harm === 'exposes') return 'missing-rule';
  const hairpin = differences.every(({rule}) => setOf(rule)?.endsWith('LOOP-BACK'));
  return key === 'mark' && !hairpin ? 'postrouting-broken' : 'masquerade-mismatch';
}

function isFirewall(key: string): boolean {
  return /FIREWALL$|OUT-FILTER$/.test(key);
}

function isHook({kind, chain}: BaseRuleDifference): boolean {
  return kind === 'missing' && !chain.startsWith('KUBE-');
}

function setOf({matches}: Rule): string | null {
  return matches.find(({name}) => name === 'set')?.options.find(({flag}) => flag === '--match-set')?.values[0] ?? null;
}

function isClusterIPMasquerade(rule: Rule): boolean {
  return rule.target?.name === 'KUBE-MARK-MASQ' && (setOf(rule)?.endsWith('CLUSTER-IP') ?? false);
}

/** In words: who is not masqueraded. */
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
