import {servedInAnyFamily} from '../../expect/cluster/ports-on-node.ts';
import type {Hypothesis} from '../../expect/hypothesis.ts';
import {expectIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {families, type Family} from '../../model/family.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import {knowsZone, nodeRules} from '../node-input.ts';
import {type FamilyResult, joinFamilies} from '../join-families.ts';
import type {ModeAnalysis, NodeInput, ProxyMode} from '../proxy-mode.ts';
import {whyNoTables} from '../iptables/what-was-read.ts';
import {hostFacts, type IpvsState, readIpvsState} from './ipvs-state.ts';
import {analyzeIpvsFamily} from './analyze-ipvs-family.ts';
import {traceIpvsPort} from './trace-ipvs-port.ts';

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
    return problem === undefined ? {analyze: () => analyzeFamilies(input, state)} : {whyUnread: problem};
  },
};

const oldestKnownMinor = 21;

function analyzeFamilies(input: NodeInput, state: IpvsState): ModeAnalysis {
  const {config} = input;
  const ports = servedInAnyFamily(input);
  const own = {...input, facts: hostFacts(input.facts, state, ports, config.version.value)};
  const results = families.map(family => resultOf(family, own, {state, hasPorts: ports.some(port => port.family === family)}));
  return {...joinFamilies(results), isReadPiecemeal: true, config, counts: countsOf(input, state)};
}

function resultOf(
  family: Family,
  input: NodeInput,
  {state, hasPorts}: {readonly state: IpvsState; readonly hasPorts: boolean},
): FamilyResult {
  const ruleset = input.dumps.current.get(family) ?? null;
  const reasons = [...whyUnreadable(family, ruleset), ...state.problems];
  const {symptoms, expected, sides, byPort} = analyzeIpvsFamily({
    expect: (hypothesis: Hypothesis) => expectIpvs({...input, family, bound: state.bound ?? []}, hypothesis),
    ...{state, ruleset: isWhole(ruleset) ? ruleset : null, nodeName: input.config.nodeName.value},
    ...{knowsZone: knowsZone(input), eachService: input.eachService ?? false},
    formerOwner: place => input.view.formerOwner(place),
    rules: nodeRules(input, family),
  });
  const wanted = expected.ports.filter(({port}) => input.traces(port, symptoms));
  return {
    ...{family, symptoms, evaluated: reasons.length === 0},
    reasons: reasons.length > 0 && (ruleset !== null || hasPorts) ? [reasons.join('; ')] : [],
    traces: wanted.map(item => traceIpvsPort({item, context: expected.context, sides})),
    differing: [...byPort].map(([item, own]) => [item, Object.entries(own).flatMap(([part, all]) => all.map(() => part))] as const),
  };
}

/** Base rules that were not read are reported, and the rest is evaluated. */
function whyUnreadable(family: Family, ruleset: Ruleset | null): readonly string[] {
  const cut = ruleset?.cut ?? null;
  const reason = cut === null ? whyNoTables(family, ruleset) : `the dump is truncated at line ${cut.line} in table ${cut.table}`;
  return reason === null ? [] : [reason];
}

function isWhole(ruleset: Ruleset | null): boolean {
  return ruleset !== null && ['nat', 'filter'].every(table => ruleset.hasTable(table) || ruleset.cut !== null);
}

/** The rules of the mode are the base rules and the virtual servers; its chains are the base chains. */
function countsOf({dumps}: NodeInput, {servers}: IpvsState): ModeAnalysis['counts'] {
  const all = [...dumps.current.values()];
  return {
    rules: all.reduce((sum, {ruleCount}) => sum + ruleCount, 0) + (servers?.length ?? 0),
    chains: all.reduce((sum, {chainCount}) => sum + chainCount, 0),
  };
}
