import {expectIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {IpvsContext} from '../../expect/ipvs/ipvs-context.ts';
import {aboutMinor, possibleVersions} from '../../expect/patch-releases.ts';
import {servedInAnyFamily} from '../../expect/cluster/served-port.ts';
import {families, type Family} from '../../model/address.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import type {KubeProxyVersion, ProxyConfig} from '../../model/proxy-config.ts';
import type {Ruleset, RuleText} from '../../model/ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {analyzeFamily} from '../analyze-family.ts';
import {masqueradesNothing, nothingMasqueraded} from '../iptables/excerpt.ts';
import {whyDistrusted, whyNoTables} from '../iptables/node-rulesets.ts';
import {
  askedFamilies,
  bestVersion,
  type FamilyResult,
  joinFamilies,
  type ModeAnalysis,
  type NodeInput,
  type ProxyMode,
} from '../proxy-mode.ts';
import {traceServedPort} from '../trace-served-port.ts';
import {baseRuleDifferences} from './analyze-ipvs-base-rules.ts';
import {outcomeOn} from '../outcomes/environment.ts';
import type {IpvsSides} from './base-rule-source.ts';
import {compareIpvs, type IpvsDifferences, hostFacts, type IpvsState, readIpvsState} from './ipvs-state.ts';
import {ipvsFamily} from './ipvs-layout.ts';

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
  const mode = ipvsFamily({
    expect: hypothesis => expectIpvs({...input, family, bound: state.bound ?? []}, hypothesis),
    state,
    ruleset: wholeRuleset(input, family),
    formerOwner: place => input.view.formerOwner(place),
  });
  const {symptoms, expected, differing} = analyzeFamily(input, family, mode);
  const wanted = expected.ports.filter(({port}) => input.traces(port, symptoms));
  return {
    family,
    symptoms,
    evaluated: reasons.length === 0,
    reasons: reasons.length > 0 && (ruleset !== null || hasPorts) ? [reasons.join('; ')] : [],
    traces: wanted.map(item => traceIpvsPort(item, expected.context, mode.sidesOf(expected))),
    differing,
  };
}

/** Base rules that were not read are reported, and the rest is evaluated. */
function whyUnreadable(family: Family, ruleset: Ruleset | null): readonly string[] {
  const truncation = ruleset?.truncation ?? null;
  const reason =
    truncation === null ? whyNoTables(family, ruleset) : `the dump is truncated at line ${truncation.line} in table ${truncation.table}`;
  return reason === null ? [] : [reason];
}

function wholeRuleset({dumps}: NodeInput, family: Family): Ruleset | null {
  const ruleset = dumps.current.get(family);
  if (ruleset === undefined || whyDistrusted(dumps, family) !== null) return null;
  return ['nat', 'filter'].every(table => ruleset.hasTable(table) || ruleset.truncation !== null) ? ruleset : null;
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
  return traceServedPort({
    item,
    context,
    isSentByIpvs: true,
    walk: packet => ({should: outcomeOn(sides.expected, packet), does: outcomeOn(sides.whole, packet)}),
    stepsOf: path =>
      path
        .filter(rule => rule.table === 'ipvs' && !isRealServer(rule))
        .map(({table, chain, line, text}) => ({table, chain, line, text, to: `virtual server ${chain}`})),
    pickOf: path => path.find(isRealServer) ?? null,
    rewriteOf: path => path.find(isRealServer) ?? null,
  });
}

/** As ipvsadm-save spells it, or the list of ipvsadm. */
function isRealServer({table, text}: RuleText): boolean {
  return table === 'ipvs' && (text.startsWith('-a ') || text.startsWith('->'));
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
