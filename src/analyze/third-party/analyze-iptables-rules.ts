import {append} from '../../model/lists.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import {entryText} from '../../model/entry.ts';
import type {Severity} from '../../model/finding.ts';
import type {NodeFacts} from '../../model/node-facts.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import type {Environment} from '../../trace/packet.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {walkPacket} from '../../trace/iptables/walk-packet.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {groupPorts, smallest} from './port-groups.ts';
import {dropsByDefault, thirdPartyRules, isHookedChain, isKubeProxyChain, isPolicyChain} from './iptables-rules.ts';
import {type Probe, probesFor} from '../outcomes/probes.ts';
import type {IptablesServiceView} from '../iptables/iptables-service-view.ts';
import {sourceNames} from '../outcomes/sources.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {describePathOutcome, type PathOutcome} from '../outcomes/path-outcome.ts';
import {pathOutcomeOf} from '../iptables/iptables-outcome.ts';
import {plural} from '../../model/text/plural.ts';

export interface ThirdPartyCase {
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
  const ofAll = new Map<string, {found: IptablesRuleEffect; ports: PortOnNode[]}>();
  for (const {ports, rules: concerned} of groups) {
    const alone = concerned.some(rule => specific.has(rule));
    for (const item of alone ? ports : smallest(ports)) {
      for (const found of mergeAlike(analyzeGroup(item, given, environment))) {
        if (found.rule !== null && specific.has(found.rule)) symptoms.push(ofPort(found, item));
        else note(ofAll, found, alone ? [item] : ports);
      }
    }
  }
  return [...[...ofAll.values()].map(({found, ports}) => ofNode(found, ports)), ...symptoms];
}

function note(
  ofAll: Map<string, {found: IptablesRuleEffect; ports: PortOnNode[]}>,
  found: IptablesRuleEffect,
  ports: readonly PortOnNode[],
): void {
  const known = ofAll.get(keyOf(found));
  if (known === undefined) ofAll.set(keyOf(found), {found, ports: [...ports]});
  else append(known.ports, ports);
}

/** One rule is one finding, with the first entry and source that showed it. */
function mergeAlike(all: readonly IptablesRuleEffect[]): readonly IptablesRuleEffect[] {
  return [...new Map([...all].reverse().map(found => [keyOf(found), found])).values()].reverse();
}

function keyOf({kind, rule}: IptablesRuleEffect): string {
  return `${kind} ${rule === null ? '' : `${rule.table}/${rule.chain} ${rule.line}`}`;
}

/** What is wrong with one entry from one source, and the rule that does it. */
interface IptablesRuleEffect {
  readonly kind:
    | 'entry-taken-by-other-rule'
    | 'dropped-by-other-rule'
    | 'forward-blocked'
    | 'undecided-path'
    | 'postrouting-broken'
    | 'missing-reject';
  /** When it is not the usual one of its kind. */
  readonly severity?: Severity;
  readonly probe: Probe;
  readonly detail: string;
  readonly rule: Rule | null;
}

function analyzeGroup(item: PortOnNode, {expected, actual, view}: ThirdPartyCase, environment: Environment): readonly IptablesRuleEffect[] {
  const found = new Map<string, IptablesRuleEffect>();
  for (const probe of probesFor({item, context: expected.context, hairpins: []})) {
    if (probe.knownTo.size > 0) continue;
    const alone = pathOutcomeOf(walkPacket(view, probe.packet, environment));
    const all = walkPacket(actual, probe.packet, environment);
    const pathOutcome = pathOutcomeOf(all);
    const local = isKnownLocal(probe, expected.context.facts, environment);
    for (const outcome of all) {
      const result = compareThirdPartyOutcome(outcome, {probe, alone, pathOutcome, local});
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
  readonly local: boolean | null;
}

function isKnownLocal({packet}: Probe, {allAddresses}: NodeFacts, environment: Environment): boolean | null {
  return environment.isLocal(packet.destination) === true ? true : allAddresses ? false : null;
}

/** Null when the outcome is the one of kube-proxy's rules alone, or is not caused by a third-party rule. */
function compareThirdPartyOutcome(outcome: Outcome, {probe, alone, pathOutcome, local}: Walked): IptablesRuleEffect | null {
  const rule = outcome.path.findLast(({chain, target}) => !isKubeProxyChain(chain) && !isHookedChain(target?.name ?? '')) ?? null;
  const who = `packets from ${sourceNames[probe.source.kind]} to its ${entryText(probe.entry)}`;
  if (outcome.verdict === 'undecided') return analyzeUndecided(outcome, alone, probe, who);
  if (outcome.verdict === 'drop' || outcome.verdict === 'reject') {
    if (alone.destinations.size === 0 || (outcome.policy === undefined && isKubeProxyChain(outcome.path.at(-1)?.chain ?? ''))) return null;
    const refused = outcome.verdict === 'reject' ? 'refused' : 'dropped';
    const rewritten = outcome.path.some(({target}) => target?.name === 'DNAT');
    const decisive = outcome.policy === undefined ? (outcome.path.at(-1) ?? null) : null;
    if (decisive !== null && isPolicyChain(decisive.chain)) return refusedByPolicy(decisive, refused, probe, who);
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
      rule: outcome.path.findLast(isRewriting) ?? rule,
      detail: `${who} are sent to ${outcome.destination} by a third-party rule that comes before kube-proxy's rules`,
    };
  }
  if (outcome.destination === null && alone.destinations.size > 0) {
    const taker = takerOf(outcome.path);
    if (taker === null) return null;
    if (isServedByCache(taker, probe, local)) return servedByCache(taker, probe, who);
    return {
      kind: 'entry-taken-by-other-rule',
      probe,
      rule: taker,
      detail: `${who} never reach kube-proxy's rules, because a third-party rule intercepts them; they should reach ${describePathOutcome(alone)}`,
    };
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

/** Unknown interfaces are not reported, and network policies are evaluated by their own tools. */
function analyzeUndecided(outcome: Outcome, alone: PathOutcome, probe: Probe, who: string): IptablesRuleEffect | null {
  if (alone.undecided > 0) return null;
  const rule = outcome.doubt ?? outcome.path.at(-1) ?? null;
  if (rule === null || isKubeProxyChain(rule.chain) || isPolicyChain(rule.chain) || isPolicyChain(rule.target?.name ?? '')) return null;
  if (outcome.doubt?.options.some(({flag}) => flag === '-i' || flag === '-o')) return null;
  const detail = `the outcome for ${who} is undetermined: ${outcome.reason ?? ''}`;
  // The rule changes at most the source address.
  const masquerades = rule.target?.name === 'MASQUERADE' || rule.target?.name === 'SNAT';
  return {kind: 'undecided-path', probe, rule, detail, ...(masquerades ? {severity: 'info'} : {})};
}

/** A network policy decides by design which clients it admits. */
function refusedByPolicy(rule: Rule, refused: string, probe: Probe, who: string): IptablesRuleEffect {
  return {kind: 'dropped-by-other-rule', severity: 'info', probe, rule, detail: `${who} are ${refused} by a network policy`};
}

/** NodeLocal DNSCache binds the cluster IP of the DNS Service on the node, and switches connection tracking off for it. */
function isServedByCache(rule: Rule, {packet}: Probe, local: boolean | null): boolean {
  return isUntracking(rule) && packet.port === 53 && (local ?? rule.text.includes('NodeLocal DNS Cache'));
}

function servedByCache(rule: Rule, probe: Probe, who: string): IptablesRuleEffect {
  const detail = `${who} are answered by the node itself, without kube-proxy's rules: NodeLocal DNSCache has bound the address`;
  return {kind: 'entry-taken-by-other-rule', severity: 'info', probe, rule, detail};
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
  return before.find(isUntracking) ?? before.findLast(rule => rule.table === 'nat' && takesPackets(rule)) ?? null;
}

function isRewriting({chain, target}: Rule): boolean {
  return !isKubeProxyChain(chain) && ['DNAT', 'REDIRECT', 'NETMAP'].includes(target?.name ?? '');
}

function isUntracking({target}: Rule): boolean {
  return target?.name === 'NOTRACK' || (target?.name === 'CT' && target.options.some(({flag}) => flag === '--notrack'));
}

/** A rule that ends the path through its table. */
function takesPackets({target}: Rule): boolean {
  return ['ACCEPT', 'RETURN', 'DNAT', 'REDIRECT', 'NOTRACK', 'CT', 'MASQUERADE', 'SNAT'].includes(target?.name ?? '');
}

function ofPort({kind, severity, probe, detail, rule}: IptablesRuleEffect, {port}: PortOnNode): Symptom {
  const base = {kind, family: port.family, port, entry: probe.entry, detail, expected: [], actual: rule === null ? [] : [rule]};
  return severity === undefined ? base : {...base, severity};
}

function ofNode({kind, severity, probe, detail, rule}: IptablesRuleEffect, ports: readonly PortOnNode[]): Symptom {
  const scope = `${plural(ports.length, 'Service port')}, such as ${ports[0]?.port.servicePortName ?? ''}`;
  const {family} = probe.packet;
  return {
    kind,
    ...(severity === undefined ? {} : {severity}),
    family,
    port: null,
    detail: `${detail.replace(' its ', ' the ')} (${scope})`,
    expected: [],
    actual: rule === null ? [] : [rule],
  };
}
