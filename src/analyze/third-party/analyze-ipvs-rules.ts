import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {ChainSource, Rule, Ruleset} from '../../model/ruleset.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {hasSameKinds, isSameOutcome} from '../outcomes/path-outcome.ts';
import {probesFor, whose} from '../outcomes/probes.ts';
import {acceptedEffect, losesPackets, type WalkedProbe} from './accepted-effect.ts';
import {isKubeProxyChain, isPolicyChain, thirdPartyRules} from './iptables-rules.ts';
import {groupPorts, type PortGroups, representatives} from './port-groups.ts';
import {rewrites, takesPackets, unmasqueraderOf, untracks} from './node-rule.ts';
import {
  ifUnusual,
  isKnownLocal,
  type NotedEffect,
  noteEffect,
  refusedByPolicy,
  type RuleEffect,
  symptomOfNode,
  symptomOfPort,
  undeterminedEffect,
} from './rule-effect.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {baseRuleSource} from '../ipvs/base-rule-source.ts';
import {pathOutcomeOn, type IpvsSides} from '../ipvs/ipvs-sides.ts';

interface IpvsThirdPartyCase {
  readonly expected: ExpectedIpvs;
  readonly ruleset: Ruleset;
  readonly sides: IpvsSides;
}

/**
 * What rules that are not of IPVS mode do to the packets of Services: those of a firewall, a network plugin, and what iptables mode
 * left behind. The base rules are assumed to be as expected.
 */
export function analyzeIpvsThirdPartyRules({expected, ruleset, sides}: IpvsThirdPartyCase): readonly Symptom<Rule>[] {
  const baseRules = baseRuleSource(expected);
  if (!holdsOthers(ruleset, baseRules)) return [];
  const beside: ChainSource = {
    family: ruleset.family,
    hasTable: table => ruleset.hasTable(table),
    chain: (table, name) => (name.startsWith('KUBE-') ? baseRules.chain(table, name) : undefined) ?? ruleset.chain(table, name),
  };
  const {ports, context} = expected;
  const grouped = groupPorts(expected, thirdPartyRules(ruleset), sides.actual.environment);
  const found = new Map<string, NotedEffect<Rule, ServedPort>>();
  for (const [item, alike] of tried(ports, grouped, port => reachesSameKinds(port, expected, sides)))
    for (const effect of analyzeItem(item, expected, {alone: sides.actual, all: {...sides.actual, rules: beside}}))
      noteEffect(found, effect, [item, ...alike]);
  return [...found.values()].flatMap(({effect, items}) =>
    items.size === 1 || (effect.rule !== null && grouped.specific.has(effect.rule))
      ? [...items].map(item => symptomOfPort(effect, item))
      : [symptomOfNode(effect, items, context.family)],
  );
}

/** Above this number, only Service ports that a rule names, one of each group, and some others are probed. */
const maxPorts = 200;

/** The Service ports to probe, and for each of them those that have the same outcomes. */
function tried(
  ports: readonly ServedPort[],
  {groups, specific}: PortGroups<ServedPort>,
  isAsExpected: (item: ServedPort) => boolean,
): ReadonlyMap<ServedPort, readonly ServedPort[]> {
  if (ports.length <= maxPorts) return new Map(ports.map(item => [item, []]));
  const step = Math.ceil(ports.length / maxPorts);
  const some = ports.filter((_, index) => index % step === 0);
  const named = groups.flatMap(group => {
    const isNamed = group.rules.some(rule => specific.has(rule));
    const chosen = isNamed ? group.ports.map(item => ({item, alike: []})) : representatives(group.ports, isAsExpected);
    return chosen.map(({item, alike}) => [item, alike] as const);
  });
  return new Map<ServedPort, readonly ServedPort[]>([...some.map(item => [item, []] as const), ...named]);
}

/** Whether all packets to a Service port end in the kinds of outcomes that they should, by IPVS alone. */
function reachesSameKinds(item: ServedPort, {context}: ExpectedIpvs, sides: IpvsSides): boolean {
  const probes = probesFor({item, context, hairpins: []}).filter(({knownTo}) => knownTo.size === 0);
  return probes.every(({packet}) => hasSameKinds(pathOutcomeOn(sides.expected, packet), pathOutcomeOn(sides.actual, packet)));
}

const hooks = {
  raw: ['PREROUTING', 'OUTPUT'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  nat: ['PREROUTING', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
} as const;

/** Some base chain holds more than kube-proxy's jumps, or drops by its policy. If one of the jumps is missing, that is a fault of the base rules. */
function holdsOthers(ruleset: Ruleset, baseRules: ChainSource): boolean {
  let others = false;
  for (const [table, chains] of Object.entries(hooks)) {
    for (const name of chains) {
      const found = ruleset.chain(table, name);
      const targets = new Set(found?.rules().map(({target}) => target?.name));
      const jumps =
        baseRules
          .chain(table, name)
          ?.rules()
          .map(({target}) => target?.name) ?? [];
      if (!jumps.every(target => targets.has(target))) return false;
      others ||= found?.policy === 'DROP' || (found?.ruleCount ?? 0) > jumps.length;
    }
  }
  return others;
}

interface Compared {
  readonly alone: IpvsSides['actual'];
  readonly all: IpvsSides['actual'];
}

function analyzeItem(item: ServedPort, expected: ExpectedIpvs, {alone: own, all}: Compared): readonly RuleEffect<Rule>[] {
  const {facts, mark} = expected.context;
  return probesFor({item, context: expected.context, hairpins: []})
    .filter(({knownTo}) => knownTo.size === 0)
    .flatMap(probe => {
      const alone = pathOutcomeOn(own, probe.packet);
      const pathOutcome = pathOutcomeOn(all, probe.packet);
      if (isSameOutcome(alone, pathOutcome)) return [];
      const isLocal = isKnownLocal(probe, facts, all.environment);
      return pathOutcome.outcomes.flatMap(outcome => compareThirdPartyOutcome(outcome, {probe, alone, pathOutcome, isLocal}, mark) ?? []);
    });
}

/** Null when the outcome is the one of IPVS mode's rules alone, or is not caused by a third-party rule. */
function compareThirdPartyOutcome(outcome: Outcome, walked: WalkedProbe, mark: string): RuleEffect<Rule> | null {
  const {verdict, path} = outcome;
  // What kube-proxy itself leaves undetermined is so in its rules alone.
  if (verdict === 'undecided') return undeterminedEffect(outcome, {...walked, isOwn: () => false, isCut: false});
  if (verdict !== 'accept') return refusal(outcome, walked);
  const thirdParty = path.filter(({chain}) => !isKubeProxyChain(chain));
  return acceptedEffect(outcome, walked, {
    redirecting: () => thirdParty.findLast(rewrites) ?? null,
    intercepting: () => thirdParty.find(untracks) ?? thirdParty.find(rule => rule.table === 'nat' && takesPackets(rule)) ?? null,
    unmasquerading: () => unmasqueraderOf(path, mark),
    masquerading: 'KUBE-POSTROUTING',
  });
}

/** Packets pass INPUT to the virtual server, and OUTPUT from it to the endpoint: they are never forwarded. */
function refusal({verdict, path, policy}: Outcome, walked: WalkedProbe): RuleEffect<Rule> | null {
  if (!losesPackets(walked)) return null;
  const {probe} = walked;
  const who = whose(probe);
  const refused = verdict === 'reject' ? 'refused' : 'dropped';
  const rule = policy === undefined ? (path.at(-1) ?? null) : null;
  if (rule !== null && isPolicyChain(rule.chain)) return refusedByPolicy(rule, probe, refused);
  if (rule?.chain.startsWith('KUBE-')) {
    const detail = `${who} are ${refused} by a rule that iptables mode left behind in ${rule.table}/${rule.chain}`;
    return {kind: 'unexpected-reject', severity: 'error', detail, rule, probe};
  }
  const by = rule === null ? `because no rule accepts them and the policy of ${policy ?? 'a chain'} is DROP` : 'by a third-party rule';
  const effect = {kind: 'dropped-by-other-rule', probe, rule, detail: `${who} are ${refused} ${by}`} as const;
  return {...effect, ...(policy === undefined ? {} : {policy}), ...ifUnusual(probe)};
}
