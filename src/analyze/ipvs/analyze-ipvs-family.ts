import type {FormerOwner} from '../../expect/cluster/former-owners.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {ChainSource, Ruleset} from '../../model/ruleset.ts';
import type {Side} from '../../trace/side.ts';
import {baseRuleSource} from './base-rule-source.ts';
import {noServiceWorks} from '../symptoms/no-service-works.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {inferIpvsSettings, type ExpectIpvs} from './infer-ipvs-settings.ts';
import {addressEvidence} from './evidence.ts';
import {compareIpvs, type IpvsDifferences} from './ipvs-differences.ts';
import {type IpvsSides, sidesOf} from './ipvs-sides.ts';
import type {IpvsState} from './ipvs-state.ts';
import {isIpvsChain} from '../third-party/iptables-rules.ts';
import {analyzeThirdPartyRules, type NodeRules} from '../third-party/analyze-third-party.ts';
import {analyzeIpvsBaseRules} from './analyze-ipvs-base-rules.ts';
import {analyzeIpvsPort} from './analyze-ipvs-port.ts';
import {mergeByNode} from './merge-by-node.ts';
import {staleServers} from './stale-servers.ts';
import {uncoveredPods} from '../uncovered-pods.ts';
import {plural} from '../../model/text/plural.ts';

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
export function analyzeIpvsFamily({
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
    return result([noServiceRules(expected, differences)]);
  const ports = [...differences.byPort].flatMap(([item, own]) => {
    const known = device === null ? own : {...own, missingAddresses: []};
    return analyzeIpvsPort({item, differences: known, expected, sides, nodeName});
  });
  return result([
    ...symptoms,
    ...uncoveredPods(expected.context),
    ...(device === null ? [] : [device]),
    ...wrongSets(expected, differences),
    ...(ruleset === null ? [] : analyzeIpvsBaseRules({expected, ruleset, sides, sets: state.sets, nodeName})),
    ...(ruleset === null ? [] : thirdPartySymptoms({expected, ruleset, sides, rules})),
    ...mergeByNode(ports, {expected, differences, state}),
    ...staleServers({expected, differences, state, formerOwner}),
  ]);
}

interface ThirdPartyRules {
  readonly expected: ExpectedIpvs;
  readonly ruleset: Ruleset;
  readonly sides: IpvsSides;
  readonly rules: NodeRules;
}

/** The base rules are assumed to be as expected; if one of the jumps to them is missing, that is a fault of theirs. */
function thirdPartySymptoms({expected, ruleset, sides, rules}: ThirdPartyRules): readonly Symptom[] {
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
    ...{ports, context, differs: () => true},
    rules: {...rules, iptables: [ruleset, ...others]},
    sides: {
      should: side(sides.expected),
      does: side({rules: baseRules, environment}),
      all: {iptables: [beside, ...others], nft: rules.nft(), environment},
    },
    mode: {masquerading: 'KUBE-POSTROUTING', acceptsItself: false, isOwnChain: isIpvsChain},
  });
}

function holdsJumps(ruleset: Ruleset, baseRules: ChainSource): boolean {
  return baseChains.every(([table, name]) => {
    const targets = new Set(
      ruleset
        .chain(table, name)
        ?.rules()
        .map(({target}) => target?.name),
    );
    return (baseRules.chain(table, name)?.rules() ?? []).every(({target}) => targets.has(target?.name));
  });
}

const baseChains = [
  ...['PREROUTING', 'OUTPUT', 'POSTROUTING'].map(name => ['nat', name] as const),
  ...['INPUT', 'FORWARD', 'OUTPUT'].map(name => ['filter', name] as const),
];

function noServiceRules({context: {family}, ports}: ExpectedIpvs, {resolved}: IpvsDifferences): Symptom {
  const count = ports.length;
  const detail = `IPVS holds none of the ${resolved.size} virtual servers of ${plural(count, 'Service port')}: ${noServiceWorks(family)}`;
  return {kind: 'no-service-rules', family, port: null, detail, expected: [], actual: []};
}

/** kube-ipvs0 has none of the addresses: it is missing, or lost all of them. */
function deviceGone({context: {family}, bound}: ExpectedIpvs, {missingAddresses}: IpvsDifferences): Symptom | null {
  if (missingAddresses.length < 2 || missingAddresses.length !== bound.size) return null;
  const detail = `kube-ipvs0 is missing or has none of the ${bound.size} addresses of Services: packets that arrive for them are not accepted, and no Service works except for the node itself`;
  const expected = missingAddresses.slice(0, 4).map(address => addressEvidence(address, 0));
  return {kind: 'services-chain-not-hooked', family, port: null, detail, expected, actual: []};
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
      ...{...base, kind: 'unexpected-rule', severity: 'error'},
      detail: `ipset ${set} is of type ${found} and not ${wanted}: kube-proxy stops at it, and no change reaches this node any more`,
    };
  });
}
