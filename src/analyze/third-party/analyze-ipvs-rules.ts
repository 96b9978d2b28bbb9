import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {ChainSource, Rule, Ruleset} from '../../model/ruleset.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {describePathOutcome, type PathOutcome, isSameOutcome} from '../outcomes/path-outcome.ts';
import {type Probe, probesFor, whose} from '../outcomes/probes.ts';
import {type NotedEffect, noteEffect, type RuleEffect, symptomOfNode, symptomOfPort} from './rule-effect.ts';
import type {Symptom, SymptomKind} from '../symptoms/symptom.ts';
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
  const found = new Map<string, NotedEffect<Rule, ServedPort>>();
  for (const item of tried(expected.ports))
    for (const effect of analyzeItem(item, expected, {alone: sides.actual, all: {...sides.actual, rules: beside}}))
      noteEffect(found, effect, [item]);
  return [...found.values()].map(({effect, items}) => {
    const [only, ...others] = items;
    return only !== undefined && others.length === 0 ? symptomOfPort(effect, only) : symptomOfNode(effect, items, expected.context.family);
  });
}

/** Above this number, only some Service ports of every shape are probed. */
const maxPorts = 200;

function tried(ports: readonly ServedPort[]): readonly ServedPort[] {
  if (ports.length <= maxPorts) return ports;
  const step = Math.ceil(ports.length / maxPorts);
  const shapes = new Map(
    ports.map(item => [
      `${item.port.protocol} ${item.port.nodePort !== 0} ${item.port.loadBalancerVIPs.length > 0} ${item.port.externalIPs.length > 0}`,
      item,
    ]),
  );
  return [...new Set([...shapes.values(), ...ports.filter((_, index) => index % step === 0)])];
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

function analyzeItem(item: ServedPort, expected: ExpectedIpvs, {alone, all}: Compared): readonly RuleEffect<Rule>[] {
  return probesFor({item, context: expected.context, hairpins: []})
    .filter(({knownTo}) => knownTo.size === 0)
    .flatMap(probe => {
      const own = pathOutcomeOn(alone, probe.packet);
      const pathOutcome = pathOutcomeOn(all, probe.packet);
      return isSameOutcome(own, pathOutcome) ? [] : pathOutcome.outcomes.flatMap(outcome => compareThirdPartyOutcome(outcome, probe, own));
    });
}

function compareThirdPartyOutcome(outcome: Outcome, probe: Probe, own: PathOutcome): readonly RuleEffect<Rule>[] {
  const {verdict, path, destination, policy, reason, doubt} = outcome;
  const who = whose(probe);
  const last = policy === undefined ? (path.at(-1) ?? null) : null;
  const say = (kind: SymptomKind, detail: string, rule: Rule | null): readonly RuleEffect<Rule>[] => [
    {kind, detail, rule, probe, ...(policy === undefined ? {} : {policy})},
  ];
  if (verdict === 'undecided') return say('undecided-path', `the outcome for ${who} is undetermined: ${reason ?? ''}`, doubt ?? last);
  if (verdict === 'accept') {
    if (destination !== null && own.destinations.has(destination)) return [];
    const taker = path.find(({table, chain, target}) => table === 'nat' && !chain.startsWith('KUBE-') && takes.has(target?.name ?? ''));
    if (taker === undefined || own.destinations.size === 0) return [];
    const where = destination === null ? 'are kept from their virtual server' : `are taken to ${destination}`;
    return say('entry-taken-by-other-rule', `${who} ${where} by a third-party rule; they should go to ${describePathOutcome(own)}`, taker);
  }
  if (own.destinations.size === 0) return [];
  const refused = verdict === 'reject' ? 'refused' : 'dropped';
  if (last?.chain.startsWith('KUBE-')) {
    const detail = `${who} are ${refused} by a rule that iptables mode left behind in ${last.table}/${last.chain}`;
    return [{kind: 'unexpected-reject', severity: 'error', detail, rule: last, probe}];
  }
  const by = last === null ? `because no rule accepts them and the policy of ${policy ?? 'a chain'} is DROP` : 'by a third-party rule';
  return say('dropped-by-other-rule', `${who} are ${refused} ${by}`, last);
}

const takes = new Set(['DNAT', 'REDIRECT', 'ACCEPT', 'RETURN']);
