import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import type {ChainSource, Rule, Ruleset} from '../../model/ruleset.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import type {Environment} from '../../trace/packet.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {walkPacket} from '../../trace/iptables/walk-packet.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {groupPorts, representatives} from './port-groups.ts';
import {dropsByDefault, thirdPartyRules, isHookedChain, isKubeProxyChain, isPolicyChain} from './iptables-rules.ts';
import {hasSameKinds, type PathOutcome} from '../outcomes/path-outcome.ts';
import {type Probe, probesFor, whose} from '../outcomes/probes.ts';
import type {IptablesServiceView} from '../iptables/iptables-service-view.ts';
import {acceptedEffect, losesPackets, type WalkedProbe} from './accepted-effect.ts';
import {rewrites, takesPackets, unmasqueraderOf, untracks} from './node-rule.ts';
import {
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
import {pathOutcomeOf} from '../iptables/iptables-outcome.ts';

interface ThirdPartyCase {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  /** The actual rules that packets are walked through, with those of kube-proxy repaired that are a symptom of their own. */
  readonly walked: ChainSource;
  readonly view: IptablesServiceView;
  /** The Service ports whose own rules differ. */
  readonly differing: ReadonlySet<PortOnNode>;
  /** The node's ipsets, where they were read. */
  readonly sets: ReadonlyMap<string, IpSet>;
}

/**
 * What third-party rules do to Services' packets. Service ports that the same third-party rules may match have the same outcomes, so
 * one of each group is walked through all the rules of the node and through kube-proxy's rules alone.
 */
export function analyzeThirdPartyRules(given: ThirdPartyCase): readonly Symptom[] {
  const {expected, actual, differing, sets} = given;
  const rules = thirdPartyRules(actual);
  if (rules.length === 0 && !dropsByDefault(actual)) return [];
  const environment = environmentOf(expected.context.facts, {sets});
  const symptoms: Symptom[] = [];
  const {groups, specific} = groupPorts(expected, rules, environment);
  const ofAll = new Map<string, NotedEffect<Rule, PortOnNode>>();
  for (const {ports, rules: concerned} of groups) {
    const isAsExpected = (item: PortOnNode): boolean => !differing.has(item) || reachesSameKinds(item, given, environment);
    const isNamed = concerned.some(rule => specific.has(rule));
    const tried = isNamed ? ports.map(item => ({item, alike: []})) : representatives(ports, isAsExpected);
    for (const {item, alike} of tried) {
      const found = new Map<string, NotedEffect<Rule, PortOnNode>>();
      for (const effect of analyzeItem(item, given, environment)) noteEffect(found, effect, [item]);
      for (const {effect} of found.values()) {
        if (effect.rule !== null && specific.has(effect.rule)) symptoms.push(symptomOfPort(effect, item));
        // The symptom names the first one, whose packet it describes.
        else noteEffect(ofAll, effect, [item, ...alike]);
      }
    }
  }
  const broad = [...ofAll.values()].flatMap(({effect, items}) =>
    items.size === 1 ? [...items].map(item => symptomOfPort(effect, item)) : [symptomOfNode(effect, items, expected.family)],
  );
  return [...broad, ...symptoms];
}

/** Whether all packets to a Service port end in the kinds of outcomes that they should, by kube-proxy's rules alone. */
function reachesSameKinds(item: PortOnNode, {expected, view}: ThirdPartyCase, environment: Environment): boolean {
  const outcome = (rules: ChainSource, {packet}: Probe): PathOutcome => pathOutcomeOf(walkPacket(rules, packet, environment));
  const probes = probesFor({item, context: expected.context, hairpins: []}).filter(({knownTo}) => knownTo.size === 0);
  return probes.every(probe => hasSameKinds(outcome(expected, probe), outcome(view, probe)));
}

function analyzeItem(
  item: PortOnNode,
  {expected, walked: rules, view}: ThirdPartyCase,
  environment: Environment,
): readonly RuleEffect<Rule>[] {
  const {facts, mark} = expected.context;
  return probesFor({item, context: expected.context, hairpins: []}).flatMap(probe => {
    if (probe.knownTo.size > 0) return [];
    const alone = pathOutcomeOf(walkPacket(view, probe.packet, environment));
    const outcomes = walkPacket(rules, probe.packet, environment);
    const walked = {probe, alone, pathOutcome: pathOutcomeOf(outcomes), isLocal: isKnownLocal(probe, facts, environment)};
    return outcomes.flatMap(outcome => compareThirdPartyOutcome(outcome, walked, mark) ?? []);
  });
}

/** Null when the outcome is the one of kube-proxy's rules alone, or is not caused by a third-party rule. */
function compareThirdPartyOutcome(outcome: Outcome, walked: WalkedProbe, mark: string): RuleEffect<Rule> | null {
  const {verdict, destination, path} = outcome;
  const {alone} = walked;
  if (verdict === 'undecided') return undeterminedEffect(outcome, {...walked, isOwn: ({chain}) => isKubeProxyChain(chain), isCut: false});
  if (verdict !== 'accept') return refusal(outcome, walked);
  const rule = path.findLast(({chain, target}) => !isKubeProxyChain(chain) && !isHookedChain(target?.name ?? '')) ?? null;
  if (rule === null) return null;
  if (destination === null && alone.destinations.size === 0) return unrefused(rule, walked);
  const thirdParty = path.filter(({chain}) => !isKubeProxyChain(chain));
  return acceptedEffect(outcome, walked, {
    redirecting: () => thirdParty.findLast(rewrites) ?? rule,
    intercepting: () => interceptorOf(path),
    unmasquerading: () => unmasqueraderOf(path, mark),
    masquerading: 'KUBE-POSTROUTING',
  });
}

function refusal({verdict, path, policy}: Outcome, walked: WalkedProbe): RuleEffect<Rule> | null {
  const {probe} = walked;
  if (!losesPackets(walked) || (policy === undefined && isKubeProxyChain(path.at(-1)?.chain ?? ''))) return null;
  const who = whose(probe);
  const refused = verdict === 'reject' ? 'refused' : 'dropped';
  const rewritten = path.some(({target}) => target?.name === 'DNAT');
  const decisive = policy === undefined ? (path.at(-1) ?? null) : null;
  if (decisive !== null && isPolicyChain(decisive.chain)) return refusedByPolicy(decisive, probe, refused);
  if (rewritten && (policy?.endsWith('/FORWARD') || (decisive !== null && isForwardPath(path)))) {
    const by = decisive === null ? 'because no rule accepts them and the policy of FORWARD is DROP' : 'by a third-party rule';
    return {kind: 'forward-blocked', probe, rule: decisive, detail: `${who} are sent to an endpoint and then ${refused} ${by}`};
  }
  const by = decisive === null ? `by the policy of ${policy}` : 'by a third-party rule';
  return {kind: 'dropped-by-other-rule', probe, rule: decisive, detail: `${who} are ${refused} ${by}`};
}

/** kube-proxy refuses packets to a Service without endpoints in table filter, where a rule before its own can accept them. */
function unrefused(rule: Rule, {probe, alone}: WalkedProbe): RuleEffect<Rule> | null {
  if (alone.rejected === 0 || rule.target?.name !== 'ACCEPT' || rule.table !== 'filter') return null;
  const detail = `it has no endpoints, so ${whose(probe)} must be refused; a third-party rule accepts them before kube-proxy's rule refuses them: connections hang or leave the node`;
  return {kind: 'missing-reject', probe, rule, detail};
}

function isForwardPath(path: readonly Rule[]): boolean {
  const hook = path.findLast(({chain}) => ['FORWARD', 'INPUT', 'OUTPUT', 'POSTROUTING', 'PREROUTING'].includes(chain));
  return hook?.chain === 'FORWARD' || hook?.chain === 'POSTROUTING';
}

/** The third-party rule that keeps a packet from kube-proxy's rules in table nat; null if there is none. */
function interceptorOf(path: readonly Rule[]): Rule | null {
  const after = path.findIndex(
    ({table, chain}) => table === 'filter' || chain === 'INPUT' || chain === 'FORWARD' || chain === 'POSTROUTING',
  );
  const before = (after < 0 ? path : path.slice(0, after)).filter(({chain}) => !isKubeProxyChain(chain));
  return before.find(untracks) ?? before.findLast(rule => rule.table === 'nat' && takesPackets(rule)) ?? null;
}
