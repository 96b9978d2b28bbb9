import {hookedChains} from '../iptables/resolve-version.ts';
import {compareRulesets} from '../../compare/compare-rulesets.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {setName} from '../../expect/ipvs/ipvs-sets.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import type {Severity} from '../../model/finding.ts';
import type {ChainSource, Difference, Rule, Ruleset} from '../../model/ruleset.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import {missingHook, textsOf, withRules} from '../iptables/chain-texts.ts';
import {isBeyondTruncation} from '../iptables/node-rulesets.ts';
import {type BaseRuleChange, baseRuleChanges} from '../outcomes/base-rule-packets.ts';
import {type Walk, walkOf} from '../outcomes/environment.ts';
import type {KnownSenders} from '../outcomes/sources.ts';
import {unmasqueraded, withEffect} from '../symptoms/node-symptoms.ts';
import {evidenceOf, residualGroups} from '../symptoms/port-symptoms.ts';
import type {PortSymptom} from '../symptoms/symptom-list.ts';
import type {Symptom, SymptomKind} from '../symptoms/symptom.ts';
import {baseRuleSource, type IpvsSides, outFilterChain, withChainsOf} from './base-rule-source.ts';

/** What is wrong with the iptables rules around IPVS: they masquerade, filter by source and keep the node's own ports off the addresses of Services. */
export function analyzeIpvsBaseRules(baseRulesCase: IpvsBaseRulesCase): readonly Symptom[] {
  const {expected, ruleset, sides, senders} = baseRulesCase;
  const all = baseRuleDifferences(baseRulesCase);
  const gone = ['nat', 'filter'].filter(table => holdsNothing(expected, ruleset, table));
  const detector = otherDetector(all.filter(({rule}) => !gone.includes(rule.table)));
  const texts = textsOf(
    detector.left.flatMap(({kind, rule}) => (kind === 'extra' ? [rule] : [])),
    ruleset,
  );
  const baseRules = baseRuleSource(expected);
  const changes = baseRuleChanges(
    {context: expected.context, ports: expected.ports, shape: ipvsShapeOf, texts, senders},
    fromItself(walkOf(baseRules)),
    sides.expected.environment,
  );
  const harmOf: HarmOf = other => {
    const harms = Map.groupBy(changes(fromItself(walkOf(other))), harm);
    const kind = order.find(one => harms.has(one)) ?? 'none';
    harms.delete('none');
    // One of each shape was walked.
    const shapes = new Set([...harms.values()].flat().flatMap(({item}) => (item === undefined ? [] : ipvsShapeOf(item))));
    const hit = expected.ports.filter(item => shapes.has(ipvsShapeOf(item))).map(({port}) => port);
    return {kind, ...(hit.length === 0 || hit.length === expected.ports.length ? {} : {affects: hit})};
  };
  const chains = {...baseRulesCase, baseRules, harmOf};
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

/** The differences of the rules around IPVS that are evaluated here. */
export function baseRuleDifferences(compared: ComparedBaseRules): readonly BaseRuleDifference[] {
  return compareBaseRules(compared.expected, compared.ruleset).filter(difference => isReportedHere(difference, compared));
}

/** Not reported here: third-party rules in base chains, rules after the end of a truncated dump, and effects of a set's content. */
function isReportedHere({kind, rule, owner}: BaseRuleDifference, {expected, ruleset, sets}: ComparedBaseRules): boolean {
  if (kind !== 'missing' && !rule.chain.startsWith('KUBE-')) return false;
  if (kind === 'missing' && isBeyondTruncation(ruleset, rule.table, rule.chain)) return false;
  // The walk of a Service's packets covers its own rule.
  if (owner !== null) return false;
  const set = setOf(rule);
  if (set === null || sets === null || alwaysWritten.has(`${rule.table}/${rule.chain}`)) return true;
  const filled = (sets.get(set)?.elements.length ?? 0) > 0;
  const wanted = [...expected.members].some(([role, members]) => setName(role, expected.context.family) === set && members.size > 0);
  return kind === 'missing' ? filled : wanted || !filled;
}

function tableGone(table: string): NodeSymptom {
  const what = `table ${table} holds none of kube-proxy's rules`;
  // IPVS serves Services without them.
  const base = {kind: 'no-service-rules', expected: [], actual: []} as const;
  if (table === 'nat') return {...base, variant: 'unmasqueraded', ...withEffect(what, unmasqueraded)};
  const effect = 'loadBalancerSourceRanges are not enforced, and ports of the node answer on the addresses of Services';
  return {...base, variant: 'filter-flushed', severity: 'warning', ...withEffect(what, effect)};
}

/** The one rule that detects pods differs, and nothing else. */
function otherDetector(differences: readonly BaseRuleDifference[]): {
  readonly symptoms: readonly NodeSymptom[];
  readonly left: readonly BaseRuleDifference[];
} {
  const own = differences.filter(({rule}) => rule.chain === 'KUBE-SERVICES' && isClusterIPMasquerade(rule));
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
      open: hookedChains,
      unordered: new Set([outFilterChain]),
    },
    ruleset,
  ).differences;
}

/** Their rules match sets, whether these have elements or not. */
const alwaysWritten = new Set(['filter/KUBE-IPVS-FILTER', 'filter/KUBE-NODE-PORT']);

function isHook({kind, rule: {chain}}: BaseRuleDifference): boolean {
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

interface ComparedBaseRules {
  readonly expected: ExpectedIpvs;
  readonly ruleset: Ruleset;
  /** Null when they were not read. */
  readonly sets: ReadonlyMap<string, IpSet> | null;
}

interface IpvsBaseRulesCase extends ComparedBaseRules {
  readonly sides: IpvsSides;
  readonly senders: () => KnownSenders;
}

type BaseRuleDifference = Difference<ServedPort>;

/** A symptom of the node. */
type NodeSymptom = PortSymptom;

interface BaseChainsCase extends IpvsBaseRulesCase {
  /** The expected base rules. */
  readonly baseRules: ChainSource;
  readonly harmOf: HarmOf;
}

/** A jump that is missing from a base chain. */
function analyzeHook({rule}: BaseRuleDifference, {ruleset, baseRules, harmOf}: BaseChainsCase): NodeSymptom {
  const {state, closest} = missingHook(ruleset, rule);
  const target = rule.target?.name ?? '';
  const evidence = {expected: [rule], actual: closest};
  if (target === 'KUBE-POSTROUTING') return {kind: 'postrouting-broken', ...withEffect(state, 'nothing is masqueraded'), ...evidence};
  if (target === 'KUBE-FORWARD' && ruleset.chain(rule.table, rule.chain)?.policy === 'DROP') {
    const detail = `${state}, and FORWARD drops what no rule accepts: answers of pods are lost`;
    return {kind: 'forward-blocked', detail, ...evidence};
  }
  const {kind: harm, ...affects} = harmOf(withoutJump(baseRules, rule));
  const base = {kind: 'services-chain-not-hooked', severity: severityOf(harm, 'warning')} as const;
  return {...base, ...withEffect(state, consequences[harm]), ...affects, ...evidence};
}

/** The expected base rules without one jump. */
function withoutJump(baseRules: ChainSource, {table, chain, target}: Rule): ChainSource {
  const whole = baseRules.chain(table, chain);
  const isOther = (rule: Rule): boolean => rule.target?.name !== target?.name;
  return whole === undefined ? baseRules : withRules(baseRules, whole, whole.rules().filter(isOther));
}

/** Differences of kube-proxy's own chains: one symptom for each chain, or group of chains, whose severity is the effect on packets. */
function analyzeChains(differences: readonly BaseRuleDifference[], baseChainsCase: BaseChainsCase): readonly NodeSymptom[] {
  const isMarkGone = baseChainsCase.ruleset.chain('nat', markChain) === undefined;
  const chains = Map.groupBy(differences, ({rule: {table, chain, target}}) =>
    markChains.has(`${table}/${chain}`) || (isMarkGone && target?.name === markChain) ? 'mark' : `${table}/${chain}`,
  );
  return [...chains].flatMap(([key, own]) => analyzeChain(key, own, baseChainsCase));
}

function analyzeChain(key: string, differences: readonly BaseRuleDifference[], baseChainsCase: BaseChainsCase): readonly NodeSymptom[] {
  const chains = key === 'mark' ? markChains : new Set([key]);
  const evidence = evidenceOf(differences, 6);
  const where = [...chains].join(' and ');
  if (key === 'filter/KUBE-FORWARD' && blocksForward(differences, baseChainsCase)) {
    const detail = `the rules of ${where} are not those that kube-proxy writes: answers of pods are dropped`;
    return [{kind: 'forward-blocked', detail, ...evidence}];
  }
  if (key === 'filter/KUBE-NODE-PORT' && blocksHealthChecks(differences, baseChainsCase)) {
    const detail = 'the rule that accepts health checks is missing: a load balancer may consider the node unhealthy';
    return [{kind: 'health-check-port-blocked', detail, ...evidence}];
  }
  const {kind: harm, ...affects} = baseChainsCase.harmOf(withChainsOf(baseChainsCase.baseRules, baseChainsCase.ruleset, chains));
  if (harm === 'none') return harmless(differences, where);
  const what =
    key === 'mark' && differences.some(({rule}) => rule.target?.name === markChain)
      ? `nat/${markChain} is missing, and so are the rules that jump to it`
      : `the rules of ${where} are not those that kube-proxy writes`;
  const texts = withEffect(what, consequences[harm]);
  const refuses = harm === 'refuses' ? ({refuses: true} as const) : {};
  const variant = harm === 'admits' ? ({variant: 'ranges-not-enforced'} as const) : {};
  return [
    {kind: kindOf(key, harm, differences), ...variant, severity: severityOf(harm, 'info'), ...refuses, ...texts, ...affects, ...evidence},
  ];
}

function harmless(differences: readonly BaseRuleDifference[], where: string): readonly NodeSymptom[] {
  return residualGroups<BaseRuleDifference>(differences).map(({symptom, state, evidence, differences: group}) => {
    const count = group.length === 1 ? 'a rule' : `${group.length} rules`;
    return {kind: symptom, severity: 'info', detail: `${count} of ${where} ${state}: no traffic is affected`, ...evidence};
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
const markChain = 'KUBE-MARK-MASQ';
const markChains: ReadonlySet<string> = new Set(['nat/KUBE-POSTROUTING', `nat/${markChain}`]);

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
  if (harm === 'refuses') return /FIREWALL$|OUT-FILTER$/.test(key) ? 'source-ranges-mismatch' : 'unexpected-reject';
  if (harm === 'admits') return 'source-ranges-mismatch';
  if (harm === 'exposes') return differences.some(({kind}) => kind === 'missing') ? 'missing-rule' : 'unexpected-rule';
  const hairpin = differences.every(({rule}) => setOf(rule)?.endsWith('LOOP-BACK'));
  return key === 'mark' && !hairpin ? 'postrouting-broken' : 'masquerade-mismatch';
}

/** The ipset that a rule asks for. */
function setOf({matches}: Rule): string | null {
  return matches.find(({name}) => name === 'set')?.options.find(({flag}) => flag === '--match-set')?.values[0] ?? null;
}

/** The effects of base rules that differ, the most severe first. */
type BaseRuleHarm =
  /** Packets that should reach an endpoint do not. */
  | 'refuses'
  /** Packets from outside loadBalancerSourceRanges get in. */
  | 'admits'
  /** Connections that cannot work without it are not masqueraded. */
  | 'keeps-source'
  /** Connections are masqueraded, or not, contrary to the settings. */
  | 'masquerades'
  /** The node's own ports answer on addresses of Services. */
  | 'exposes'
  | 'none';

/** The effect of base rules compared with the expected ones, and on which Service ports if not on all. */
type HarmOf = (rules: ChainSource) => Pick<Symptom, 'affects'> & {readonly kind: BaseRuleHarm};

/** All properties of a Service port that decide which of the base rules of IPVS mode its packets match. */
function ipvsShapeOf({port, endpoints, all}: ServedPort): string {
  return [
    port.protocol,
    port.externalPolicyLocal,
    port.nodePort !== 0,
    port.loadBalancerVIPs.length > 0,
    port.externalIPs.length > 0,
    port.sourceRanges.length > 0,
    endpoints.reachable.length > 0,
    new Set(all.map(({nodeName}) => nodeName)).size > 1,
  ].join();
}

const order: readonly BaseRuleHarm[] = ['refuses', 'admits', 'keeps-source', 'masquerades', 'exposes'];

/** The kernel takes an address of the node as the source of what the node sends to it, and kube-ipvs0 has those of Services. */
function fromItself(walk: Walk): Walk {
  return (packet, environment) => {
    const isToItself = packet.origin === 'node' && environment.isLocal(packet.destination) === true;
    return walk(isToItself ? {...packet, source: packet.destination} : packet, environment);
  };
}

function harm({item, probe, before: should, after: does}: BaseRuleChange): BaseRuleHarm {
  if (probe === undefined) return should.rejected > 0 ? 'exposes' : 'none';
  if (should.destinations.size === 0) return does.destinations.size > 0 ? 'admits' : 'none';
  if (does.destinations.size < should.destinations.size || does.dropped + does.rejected + does.undecided > 0) return 'refuses';
  const lost = [...should.destinations].some(([destination, share]) => share.masquerade && !does.destinations.get(destination)?.masquerade);
  // An endpoint on a node that is not known connects by the rules of its own node.
  const isFromHere = (probe.endpoint?.nodeName ?? null) !== null;
  // What the node itself sends has the cluster IP as its source, which every other node has too.
  const isOfNode = probe.entry.kind === 'clusterIP' ? probe.source.kind === 'node' : item?.port.externalPolicyLocal !== true;
  const needed = isFromHere || isOfNode;
  return lost && needed ? 'keeps-source' : 'masquerades';
}
