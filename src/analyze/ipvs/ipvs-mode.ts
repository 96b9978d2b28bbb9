import {proxyVersion} from '../../expect/cluster/service-ports.ts';
import {append} from '../../model/lists.ts';
import type {Hypothesis} from '../../expect/hypothesis.ts';
import {expectIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import {families, type Family} from '../../model/family.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {knowsZone} from '../node-input.ts';
import {Differing} from '../differing.ts';
import type {ModeAnalysis, NodeInput, ProxyMode, UnreadFamily} from '../proxy-mode.ts';
import {whyNoTables} from '../iptables/what-was-read.ts';
import type {Symptom} from '../symptoms/symptom.ts';
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
  const {view, config, dumps} = input;
  const proxy = proxyVersion(config);
  const ports = families.flatMap(family => view.entries(family, proxy)).map(({port}) => port);
  const facts = hostFacts(input.facts, state, ports, config.version.value);
  const differing = new Differing();
  const evaluated: Family[] = [];
  const unread: UnreadFamily[] = [];
  const symptoms: Symptom[] = [];
  const traces: PortTrace[] = [];
  for (const family of families) {
    const ruleset = dumps.current.get(family) ?? null;
    const expect = (hypothesis: Hypothesis) => expectIpvs({view, config, facts, family, bound: state.bound ?? []}, hypothesis);
    const reasons = [...whyUnreadable(family, ruleset), ...state.problems];
    if (reasons.length > 0 && (ruleset !== null || ports.some(port => port.family === family)))
      unread.push({family, reason: reasons.join('; ')});
    const given = {
      ...{expect, state, ruleset: isWhole(ruleset) ? ruleset : null, nodeName: config.nodeName.value},
      ...{knowsZone: knowsZone(input), eachService: input.eachService ?? false},
    };
    const analysis = analyzeIpvsFamily(given);
    for (const [{port}, own] of analysis.byPort)
      differing.add(
        port,
        Object.entries(own).flatMap(([part, all]) => all.map(() => part)),
      );
    append(symptoms, analysis.symptoms);
    if (reasons.length === 0) evaluated.push(family);
    const {expected, sides} = analysis;
    const wanted = expected.ports.filter(({port}) => input.traces(port, analysis.symptoms));
    append(
      traces,
      wanted.map(item => traceIpvsPort({item, context: expected.context, sides})),
    );
  }
  return {
    families: evaluated,
    unread,
    symptoms,
    traces,
    differing: differing.services,
    isReadPiecemeal: true,
    config,
    counts: countsOf(input, state),
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
