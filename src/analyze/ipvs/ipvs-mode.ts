import {hookedChains} from '../iptables/resolve-version.ts';
import {type SenderGroups, senderGroups} from '../outcomes/senders.ts';
import {onceAsked} from '../../model/once.ts';
import {servedInAnyFamily} from '../../expect/cluster/served-port.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import type {FormerOwner} from '../../expect/cluster/service-states.ts';
import {type ExpectedIpvs, expectIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {IpvsContext} from '../../expect/ipvs/ipvs-context.ts';
import type {Hypothesis} from '../../expect/node-context.ts';
import {families, type Family} from '../../model/address.ts';
import type {ChainSource, Rule, Ruleset} from '../../model/ruleset.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import type {Side} from '../../trace/side.ts';
import {whyDistrusted, whyNoTables} from '../iptables/node-rulesets.ts';
import {
  askedFamilies,
  type FamilyResult,
  joinFamilies,
  knowsZone,
  type ModeAnalysis,
  type NodeInput,
  nodeRules,
  type NodeRules,
  type ProxyMode,
  bestVersion,
} from '../proxy-mode.ts';
import {noServiceRules, uncoveredPods, withEffect} from '../symptoms/node-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {analyzeThirdPartyRules} from '../third-party/analyze-third-party.ts';
import {isIpvsChain} from '../third-party/iptables-rules.ts';
import {traceServedPort} from '../trace-served-port.ts';
import {analyzeIpvsBaseRules, baseRuleDifferences} from './analyze-ipvs-base-rules.ts';
import {analyzeIpvsPort} from './analyze-ipvs-port.ts';
import {baseRuleSource, type IpvsSides, pathOutcomeOn, sidesOf} from './base-rule-source.ts';
import {type ExpectIpvs, inferIpvsSettings} from './infer-ipvs-settings.ts';
import {compareIpvs, type IpvsDifferences} from './ipvs-differences.ts';
import {masqueradesNothing, nothingMasqueraded} from '../iptables/excerpt.ts';
import {addressEvidence} from './ipvs-evidence.ts';
import {hostFacts, type IpvsState, readIpvsState} from './ipvs-state.ts';
import {mergeByNode, staleServers} from './stale-servers.ts';
import {aboutMinor, possibleVersions} from '../../expect/patch-releases.ts';
import type {KubeProxyVersion, ProxyConfig} from '../../model/proxy-config.ts';
import type {ServicePort} from '../../model/service-port.ts';

/** kube-proxy with the kernel's IPVS: a virtual server for each address and port of a Service, ipsets, and fixed base rules in iptables. */
export const ipvsMode: ProxyMode = {
  name: 'ipvs',
  prepare(input) {
    const {version} = input.config;
    if (version.value.minor < oldestKnownMinor)
      return {
        whyUnread: `kube-proxy ${version.value.text} in IPVS mode is older than 1.${oldestKnownMinor}, the oldest whose rules are known in this mode`,
      };
    const state = readIpvsState(input.node);
    const [problem] = state.servers === null ? state.problems : [];
    if (problem === undefined) return {analyze: () => analyzeFamilies(input, state)};
    const note = [...input.dumps.current.values()].some(masqueradesNothing) ? `; ${nothingMasqueraded}` : '';
    return {whyUnread: `${problem}${note}`};
  },
};

const oldestKnownMinor = 21;

function analyzeFamilies(input: NodeInput, state: IpvsState): ModeAnalysis {
  const ports = servedInAnyFamily(input);
  const config = resolveIpvsVersion(input, {state, ports, rulesetOf: family => wholeRuleset(input, family)});
  const own = {...input, config, facts: hostFacts(input.facts, state, ports, config.version.value)};
  const results = askedFamilies(families, input.node).map(family =>
    resultOf(family, own, {state, hasPorts: ports.some(port => port.family === family)}),
  );
  return {...joinFamilies(results), isReadPiecemeal: true, config, counts: countsOf(input, state)};
}

function resultOf(
  family: Family,
  input: NodeInput,
  {state, hasPorts}: {readonly state: IpvsState; readonly hasPorts: boolean},
): FamilyResult {
  const ruleset = input.dumps.current.get(family) ?? null;
  const distrusted = whyDistrusted(input.dumps, family);
  const reasons = [...(distrusted === null ? whyUnreadable(family, ruleset) : [distrusted]), ...state.problems];
  const {symptoms, expected, sides, byPort} = analyzeIpvsFamily({
    expect: (hypothesis: Hypothesis) => expectIpvs({...input, family, bound: state.bound ?? []}, hypothesis),
    state,
    ruleset: wholeRuleset(input, family),
    nodeName: input.config.nodeName.value,
    knowsZone: knowsZone(input),
    eachService: input.eachService ?? false,
    formerOwner: place => input.view.formerOwner(place),
    rules: nodeRules(input, family),
  });
  const wanted = expected.ports.filter(({port}) => input.traces(port, symptoms));
  return {
    family,
    symptoms,
    evaluated: reasons.length === 0,
    reasons: reasons.length > 0 && (ruleset !== null || hasPorts) ? [reasons.join('; ')] : [],
    traces: wanted.map(item => traceIpvsPort(item, expected.context, sides)),
    differing: [...byPort].map(([item, own]) => [item, Object.entries(own).flatMap(([part, all]) => all.map(() => part))] as const),
  };
}

/** Base rules that were not read are reported, and the rest is evaluated. */
function whyUnreadable(family: Family, ruleset: Ruleset | null): readonly string[] {
  const cut = ruleset?.cut ?? null;
  const reason = cut === null ? whyNoTables(family, ruleset) : `the dump is truncated at line ${cut.line} in table ${cut.table}`;
  return reason === null ? [] : [reason];
}

function wholeRuleset({dumps}: NodeInput, family: Family): Ruleset | null {
  const ruleset = dumps.current.get(family);
  if (ruleset === undefined || whyDistrusted(dumps, family) !== null) return null;
  return ['nat', 'filter'].every(table => ruleset.hasTable(table) || ruleset.cut !== null) ? ruleset : null;
}

/** The rules of the mode are the base rules and the virtual servers; its chains are the base chains. */
function countsOf({dumps}: NodeInput, {servers}: IpvsState): ModeAnalysis['counts'] {
  const all = [...dumps.current.values()];
  return {
    rules: all.reduce((sum, {ruleCount}) => sum + ruleCount, 0) + (servers?.length ?? 0),
    chains: all.reduce((sum, {chainCount}) => sum + chainCount, 0),
  };
}

/** The path of a packet to its virtual server, and on to its real servers. */
function traceIpvsPort(item: ServedPort, context: IpvsContext, sides: IpvsSides): PortTrace {
  return traceServedPort<Rule>({
    item,
    context,
    isSentByIpvs: true,
    walk: packet => ({should: pathOutcomeOn(sides.expected, packet), does: pathOutcomeOn(sides.whole, packet)}),
    stepsOf: path =>
      path.filter(isVirtualServer).map(({table, chain, line, text}) => ({table, chain, line, text, to: `virtual server ${chain}`})),
    pickOf: path => path.find(isRealServer) ?? null,
    rewriteOf: path => path.find(isRealServer) ?? null,
  });
}

function isVirtualServer({table, text}: Rule): boolean {
  return table === 'ipvs' && !isOfRealServer(text);
}

function isRealServer({table, text}: Rule): boolean {
  return table === 'ipvs' && isOfRealServer(text);
}

/** As ipvsadm-save spells it, or the list of ipvsadm. */
function isOfRealServer(text: string): boolean {
  return text.startsWith('-a ') || text.startsWith('->');
}

interface IpvsFamilyCase {
  readonly expect: ExpectIpvs;
  readonly state: IpvsState;
  /** Null when there is no dump of the family. */
  readonly ruleset: Ruleset | null;
  readonly nodeName: string;
  readonly knowsZone: boolean;
  /** Each Service is analyzed by itself: no finding stands for many of them. */
  readonly eachService: boolean;
  readonly formerOwner: FormerOwner;
  /** All rules of the node. */
  readonly rules: NodeRules;
}

interface IpvsFamilyAnalysis {
  readonly symptoms: readonly Symptom[];
  /** The expectation that the node was compared with in the end, and the two sides to walk packets through. */
  readonly expected: ExpectedIpvs;
  readonly sides: IpvsSides;
  readonly byPort: IpvsDifferences['byPort'];
}

/** Everything that is wrong with one family of a node in IPVS mode. A healthy node costs one comparison and few walks. */
function analyzeIpvsFamily({
  expect,
  state,
  ruleset,
  nodeName: configured,
  knowsZone,
  eachService,
  formerOwner,
  rules,
}: IpvsFamilyCase): IpvsFamilyAnalysis {
  const plain = expect({});
  const servers = (state.servers ?? []).filter(({family}) => family === plain.context.family);
  const first = compareIpvs(plain, state);
  const differs = [...first.byPort.values()].some(own => own.servers.length + own.members.length > 0);
  const {expected, hypothesis, symptoms} = differs
    ? inferIpvsSettings({expect, plain, servers, knowsZone, eachService})
    : {expected: plain, hypothesis: {}, symptoms: []};
  const {nodeName = configured} = hypothesis;
  const differences = expected === plain ? first : compareIpvs(expected, state);
  const device = deviceGone(expected, differences);
  const sides = sidesOf({expected, differences, state, ruleset, deviceGone: device !== null});
  const result = (found: readonly Symptom[]): IpvsFamilyAnalysis => ({expected, sides, symptoms: found, byPort: differences.byPort});
  if (!eachService && servers.length === 0 && [...differences.resolved.values()].some(({server}) => server.realServers.length > 0))
    return result([noServiceRules(`IPVS holds none of the ${differences.resolved.size} virtual servers`, expected)]);
  const senders = onceAsked(() => senderGroups({api: rules.api, context: expected.context}));
  const ports = [...differences.byPort].flatMap(([item, own]) => {
    const known = device === null ? own : {...own, missingAddresses: []};
    return analyzeIpvsPort({item, differences: known, expected, sides, nodeName});
  });
  return result([
    ...symptoms,
    ...uncoveredPods(expected),
    ...(device === null ? [] : [device]),
    ...wrongSets(expected, differences),
    ...(ruleset === null ? [] : analyzeIpvsBaseRules({expected, ruleset, sides, sets: state.sets, senders})),
    ...(ruleset === null ? [] : thirdPartySymptoms({expected, ruleset, sides, rules, senders})),
    ...mergeByNode(ports, {expected, differences, state}),
    ...staleServers({expected, differences, state, formerOwner}),
  ]);
}

interface ThirdPartyRules {
  readonly expected: ExpectedIpvs;
  readonly ruleset: Ruleset;
  readonly sides: IpvsSides;
  readonly rules: NodeRules;
  readonly senders: () => SenderGroups;
}

/** The base rules are assumed to be as expected; if one of the jumps to them is missing, that is a fault of theirs. */
function thirdPartySymptoms({expected, ruleset, sides, rules, senders}: ThirdPartyRules): readonly Symptom[] {
  const baseRules = baseRuleSource(expected);
  if (!holdsJumps(ruleset, baseRules)) return [];
  const beside: ChainSource = {
    family: ruleset.family,
    hasTable: table => ruleset.hasTable(table),
    chain: (table, name) => (name.startsWith('KUBE-') ? baseRules.chain(table, name) : undefined) ?? ruleset.chain(table, name),
  };
  const {ports, context} = expected;
  const {environment} = sides.actual;
  const others = rules.iptables.filter(({backend}) => backend !== ruleset.backend);
  const side = ({rules: source, environment: own}: IpvsSides['actual']): Side => ({iptables: [source], nft: null, environment: own});
  return analyzeThirdPartyRules({
    ports,
    context,
    differs: () => true,
    senders,
    rules: {...rules, iptables: [ruleset, ...others]},
    sides: {
      should: side(sides.expected),
      does: side({rules: baseRules, environment}),
      all: {iptables: [beside, ...others], nft: rules.nft(), environment},
    },
    mode: {masquerading: 'KUBE-POSTROUTING', isOwnChain: isIpvsChain},
  });
}

function holdsJumps(ruleset: Ruleset, baseRules: ChainSource): boolean {
  return [...hookedChains].every(key => {
    const [table = '', name = ''] = key.split('/');
    const targets = new Set(
      ruleset
        .chain(table, name)
        ?.rules()
        .map(({target}) => target?.name),
    );
    return (baseRules.chain(table, name)?.rules() ?? []).every(({target}) => targets.has(target?.name));
  });
}

/** kube-ipvs0 has none of the addresses: it is missing, or lost all of them. */
function deviceGone({context: {family}, bound}: ExpectedIpvs, {missingAddresses}: IpvsDifferences): Symptom | null {
  if (missingAddresses.length < 2 || missingAddresses.length !== bound.size) return null;
  const what = `kube-ipvs0 is missing or has none of the ${bound.size} addresses of Services`;
  const texts = withEffect(what, 'packets that arrive for them are not accepted, and no Service works except for the node itself');
  const expected = missingAddresses.slice(0, 4).map(address => addressEvidence(address, 0));
  return {kind: 'services-chain-not-hooked', variant: 'addresses-not-accepted', family, port: null, ...texts, expected, actual: []};
}

/** A set of another type makes every sync of kube-proxy stop at it. */
function wrongSets({context: {family}}: ExpectedIpvs, {wrongSets: sets}: IpvsDifferences): readonly Symptom[] {
  return sets.map(({set, found, wanted}) => {
    const base = {family, port: null, expected: [], actual: []} as const;
    if (found === null)
      return {
        ...base,
        kind: 'missing-rule',
        severity: 'warning',
        detail: `ipset ${set} is missing: rules that match it cannot be loaded`,
      };
    return {
      ...base,
      kind: 'unexpected-rule',
      severity: 'error',
      detail: `ipset ${set} is of type ${found} and not ${wanted}: kube-proxy stops at it, and no change reaches this node any more`,
    };
  });
}

/** Versions that set up a node in different ways: the first of each kind. */
const lookalikes: readonly number[] = [36, 35, 34, 33, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21];

interface IpvsNode {
  readonly state: IpvsState;
  readonly ports: readonly ServicePort[];
  /** The iptables of a family, if they are whole enough to be compared. */
  readonly rulesetOf: (family: Family) => Ruleset | null;
}

/** Where kube-proxy's version is only guessed, or its patch is not known: the version that the node's rules and IPVS fit best. */
function resolveIpvsVersion(input: NodeInput, node: IpvsNode): ProxyConfig {
  const {config} = input;
  const candidates = candidatesOf(config.version.value);
  if (candidates.length === 1) return config;
  return bestVersion(config, candidates, candidate => countDifferences({...input, config: candidate}, node)).config;
}

function candidatesOf(value: KubeProxyVersion): readonly KubeProxyVersion[] {
  const own = possibleVersions(value, 'ipvs');
  if (value.guessed === undefined) return own;
  const others = lookalikes.filter(minor => minor !== value.minor);
  return [...own, ...others.flatMap(minor => possibleVersions(aboutMinor(minor), 'ipvs'))];
}

function countDifferences(input: NodeInput, {state, ports, rulesetOf}: IpvsNode): number {
  const facts = hostFacts(input.facts, state, ports, input.config.version.value);
  return families.reduce((sum, family) => {
    const expected = expectIpvs({...input, facts, family, bound: state.bound ?? []});
    const ruleset = rulesetOf(family);
    const rules = ruleset === null ? [] : baseRuleDifferences({expected, ruleset, sets: state.sets});
    return sum + rules.length + countOf(compareIpvs(expected, state));
  }, 0);
}

function countOf({byPort, extraServers, extraAddresses, extraMembers, wrongSets}: IpvsDifferences): number {
  const ofPorts = [...byPort.values()].flatMap(own => Object.values(own).map(all => all.length));
  return [...ofPorts, extraServers.length, extraAddresses.length, extraMembers.length, wrongSets.length].reduce((a, b) => a + b, 0);
}
