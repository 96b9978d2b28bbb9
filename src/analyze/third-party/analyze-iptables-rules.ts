import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import {entryText} from '../../model/entry.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import type {Environment} from '../../trace/packet.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {walkPacket} from '../../trace/iptables/walk-packet.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {groupPorts, smallest} from './port-groups.ts';
import {dropsByDefault, thirdPartyRules, isHookedChain, isKubeProxyChain, isPolicyChain} from './iptables-rules.ts';
import {type Probe, probesFor, whose} from '../outcomes/probes.ts';
import type {IptablesServiceView} from '../iptables/iptables-service-view.ts';
import {rewrites, untracks} from './nft-rule.ts';
import {
  effectKey,
  interceptedEffect,
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
import {describePathOutcome, type PathOutcome} from '../outcomes/path-outcome.ts';
import {pathOutcomeOf} from '../iptables/iptables-outcome.ts';

interface ThirdPartyCase {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  readonly view: IptablesServiceView;
  /** The node's ipsets, where they were read. */
  readonly sets: ReadonlyMap<string, IpSet>;
}

/**
 * What third-party rules do to Services' packets. Service ports that the same third-party rules may match have the same outcomes, so
 * one of each group is walked through all the rules of the node and through kube-proxy's rules alone.
 */
export function analyzeThirdPartyRules({expected, actual, view, sets}: ThirdPartyCase): readonly Symptom[] {
  const rules = thirdPartyRules(actual);
  if (rules.length === 0 && !dropsByDefault(actual)) return [];
  const environment = environmentOf(expected.context.facts, {sets});
  const symptoms: Symptom[] = [];
  const given = {expected, actual, view, sets};
  const {groups, specific} = groupPorts(expected, rules, environment);
  const ofAll = new Map<string, NotedEffect<Rule, PortOnNode>>();
  for (const {ports, rules: concerned} of groups) {
    const alone = concerned.some(rule => specific.has(rule));
    for (const item of alone ? ports : smallest(ports)) {
      for (const effect of mergeAlike(analyzeGroup(item, given, environment))) {
        if (effect.rule !== null && specific.has(effect.rule)) symptoms.push(symptomOfPort(effect, item));
        else noteEffect(ofAll, effect, alone ? [item] : ports);
      }
    }
  }
  return [...[...ofAll.values()].map(({effect, items}) => symptomOfNode(effect, items, expected.family)), ...symptoms];
}

/** One rule is one finding, with the first entry and source that showed it. */
function mergeAlike(all: readonly RuleEffect<Rule>[]): readonly RuleEffect<Rule>[] {
  return [...new Map([...all].reverse().map(effect => [effectKey(effect), effect])).values()].reverse();
}

function analyzeGroup(item: PortOnNode, {expected, actual, view}: ThirdPartyCase, environment: Environment): readonly RuleEffect<Rule>[] {
  const found = new Map<string, RuleEffect<Rule>>();
  for (const probe of probesFor({item, context: expected.context, hairpins: []})) {
    if (probe.knownTo.size > 0) continue;
    const alone = pathOutcomeOf(walkPacket(view, probe.packet, environment));
    const all = walkPacket(actual, probe.packet, environment);
    const pathOutcome = pathOutcomeOf(all);
    const isLocal = isKnownLocal(probe, expected.context.facts, environment);
    for (const outcome of all) {
      const result = compareThirdPartyOutcome(outcome, {probe, alone, pathOutcome, isLocal});
      const key = result === null ? '' : `${result.kind} ${entryText(probe.entry)} ${result.rule?.text ?? ''}`;
      if (result !== null && !found.has(key)) found.set(key, result);
    }
  }
  return [...found.values()];
}

interface Walked {
  readonly probe: Probe;
  /** The outcome in kube-proxy's rules alone. */
  readonly alone: PathOutcome;
  readonly pathOutcome: PathOutcome;
  /** Whether the packet is for one of the node's own addresses; null when the node's interfaces were not read. */
  readonly isLocal: boolean | null;
}

/** Null when the outcome is the one of kube-proxy's rules alone, or is not caused by a third-party rule. */
function compareThirdPartyOutcome(outcome: Outcome, {probe, alone, pathOutcome, isLocal}: Walked): RuleEffect<Rule> | null {
  const rule = outcome.path.findLast(({chain, target}) => !isKubeProxyChain(chain) && !isHookedChain(target?.name ?? '')) ?? null;
  const who = whose(probe);
  if (outcome.verdict === 'undecided') return undeterminedEffect(outcome, {probe, alone, own: '', isCut: false});
  if (outcome.verdict === 'drop' || outcome.verdict === 'reject') {
    if (alone.destinations.size === 0 || (outcome.policy === undefined && isKubeProxyChain(outcome.path.at(-1)?.chain ?? ''))) return null;
    const refused = outcome.verdict === 'reject' ? 'refused' : 'dropped';
    const rewritten = outcome.path.some(({target}) => target?.name === 'DNAT');
    const decisive = outcome.policy === undefined ? (outcome.path.at(-1) ?? null) : null;
    if (decisive !== null && isPolicyChain(decisive.chain)) return refusedByPolicy(decisive, probe, refused);
    if (rewritten && (outcome.policy?.endsWith('/FORWARD') || (decisive !== null && isForwardPath(outcome.path)))) {
      const by = decisive === null ? 'because no rule accepts them and the policy of FORWARD is DROP' : 'by a third-party rule';
      return {kind: 'forward-blocked', probe, rule: decisive, detail: `${who} are sent to an endpoint and then ${refused} ${by}`};
    }
    return {
      kind: 'dropped-by-other-rule',
      probe,
      rule: decisive,
      detail: `${who} are ${refused} ${decisive === null ? `by the policy of ${outcome.policy}` : 'by a third-party rule'}`,
    };
  }
  if (rule === null) return null;
  if (outcome.destination !== null && !alone.destinations.has(outcome.destination)) {
    return {
      kind: 'entry-taken-by-other-rule',
      probe,
      rule: outcome.path.findLast(one => !isKubeProxyChain(one.chain) && rewrites(one)) ?? rule,
      detail: `${who} are sent to ${outcome.destination} by a third-party rule that comes before kube-proxy's rules`,
    };
  }
  if (outcome.destination === null && alone.destinations.size > 0) {
    const taker = takerOf(outcome.path);
    if (taker === null) return null;
    return interceptedEffect(taker, probe, {isLocal, reached: describePathOutcome(alone)});
  }
  if (outcome.destination === null && alone.rejected > 0 && rule.target?.name === 'ACCEPT' && rule.table === 'filter') {
    return {
      kind: 'missing-reject',
      probe,
      rule,
      detail: `it has no endpoints, so ${who} must be refused; a third-party rule accepts them before kube-proxy's rule refuses them: connections hang or leave the node`,
    };
  }
  const share = outcome.destination === null ? undefined : alone.destinations.get(outcome.destination);
  if (share?.masquerade && !pathOutcome.destinations.get(outcome.destination ?? '')?.masquerade) {
    const leaving = outcome.path.slice(outcome.path.findIndex(({chain}) => chain === 'POSTROUTING'));
    const taker = leaving.findLast(one => one.table === 'nat' && !isKubeProxyChain(one.chain) && takesPackets(one));
    if (taker === undefined) return null;
    return {
      kind: 'postrouting-broken',
      probe,
      rule: taker,
      detail: `${who} should be masqueraded, but a third-party rule intercepts them before KUBE-POSTROUTING`,
    };
  }
  return null;
}

function isForwardPath(path: readonly Rule[]): boolean {
  const hook = path.findLast(({chain}) => ['FORWARD', 'INPUT', 'OUTPUT', 'POSTROUTING', 'PREROUTING'].includes(chain));
  return hook?.chain === 'FORWARD' || hook?.chain === 'POSTROUTING';
}

/** The third-party rule that keeps a packet from kube-proxy's rules in table nat; null if there is none. */
function takerOf(path: readonly Rule[]): Rule | null {
  const after = path.findIndex(
    ({table, chain}) => table === 'filter' || chain === 'INPUT' || chain === 'FORWARD' || chain === 'POSTROUTING',
  );
  const before = (after < 0 ? path : path.slice(0, after)).filter(({chain}) => !isKubeProxyChain(chain));
  return before.find(untracks) ?? before.findLast(rule => rule.table === 'nat' && takesPackets(rule)) ?? null;
}

/** A rule that ends the path through its table. */
function takesPackets({target}: Rule): boolean {
  return ['ACCEPT', 'RETURN', 'DNAT', 'REDIRECT', 'NOTRACK', 'CT', 'MASQUERADE', 'SNAT'].includes(target?.name ?? '');
}
