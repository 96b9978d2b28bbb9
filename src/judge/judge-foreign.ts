import type {ExpectedRuleset} from '../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../expect/iptables/service-rules.ts';
import {entryText} from '../model/entry.ts';
import type {Rule, Ruleset} from '../model/ruleset.ts';
import type {Environment} from '../trace/packet.ts';
import {type Outcome, walkPacket} from '../trace/walk-packet.ts';
import {environmentOf} from './environment.ts';
import {ForeignRuleIndex} from './foreign-rule-index.ts';
import {type ForeignRule, foreignRules, isKubeProxyChain, isPolicyChain} from './foreign-rules.ts';
import {type Probe, probesFor} from './probes.ts';
import type {ServiceView} from './service-view.ts';
import {sourceNames} from './sources.ts';
import type {Symptom} from './symptom.ts';
import {describeFate, type Fate, fateOf} from './trial.ts';

export interface ForeignCase {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  readonly view: ServiceView;
}

/**
 * What somebody else's rules do to Services' packets. Service ports that the same foreign rules could concern fare alike, so
 * one of each group is walked through all the rules of the node and through kube-proxy's alone.
 */
export function judgeForeign({expected, actual, view}: ForeignCase): readonly Symptom[] {
  const rules = foreignRules(actual);
  if (rules.length === 0 && !dropsByDefault(actual)) return [];
  const environment = environmentOf(expected.context.facts);
  const symptoms: Symptom[] = [];
  const given = {expected, actual, view};
  const {groups, specific} = groupPorts(expected, rules, environment);
  const ofAll = new Map<string, {found: Found; ports: PortOnNode[]}>();
  for (const {ports, rules: concerned} of groups) {
    const alone = concerned.some(rule => specific.has(rule));
    for (const item of alone ? ports : ports.slice(0, 1)) {
      for (const found of mergeAlike(judgeGroup(item, given, environment))) {
        if (found.rule !== null && specific.has(found.rule)) symptoms.push(ofPort(found, item));
        else note(ofAll, found, alone ? [item] : ports);
      }
    }
  }
  return [...[...ofAll.values()].map(({found, ports}) => ofNode(found, ports)), ...symptoms];
}

function note(ofAll: Map<string, {found: Found; ports: PortOnNode[]}>, found: Found, ports: readonly PortOnNode[]): void {
  const known = ofAll.get(keyOf(found));
  if (known === undefined) ofAll.set(keyOf(found), {found, ports: [...ports]});
  else known.ports.push(...ports);
}

/** One rule, one finding: it is said once, with the first entry and source that it was seen with. */
function mergeAlike(all: readonly Found[]): readonly Found[] {
  return [...new Map([...all].reverse().map(found => [keyOf(found), found])).values()].reverse();
}

function keyOf({kind, rule}: Found): string {
  return `${kind} ${rule === null ? '' : `${rule.table}/${rule.chain} ${rule.line}`}`;
}

function dropsByDefault(actual: Ruleset): boolean {
  return ['INPUT', 'FORWARD', 'OUTPUT'].some(name => actual.chain('filter', name)?.policy === 'DROP');
}

/** Service ports that the same foreign rules may concern and that have entries of the same kinds. */
interface Group {
  readonly ports: PortOnNode[];
  /** The rules that name an address or port of theirs. */
  readonly rules: readonly Rule[];
}

interface Grouped {
  readonly groups: readonly Group[];
  /** Rules that are about particular Services: they are said of each of them, all others of the node. */
  readonly specific: ReadonlySet<Rule>;
}

/** A rule that concerns more Service ports than this, or more than half of them, is about the node. */
const mostNamed = 50;

function groupPorts(expected: ExpectedRuleset, rules: readonly ForeignRule[], environment: Environment): Grouped {
  const index = new ForeignRuleIndex(rules);
  const groups = new Map<string, Group>();
  const counts = new Map<Rule, number>();
  for (const item of expected.ports) {
    const concerned = index.concerning(item, expected, environment);
    for (const rule of concerned) counts.set(rule, (counts.get(rule) ?? 0) + 1);
    const key = `${concerned.map(({table, chain, line}) => `${table}/${chain}/${line}`).join()} ${shapeOf(item)}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, {ports: [item], rules: concerned});
    else group.ports.push(item);
  }
  const most = Math.max(1, Math.min(mostNamed, expected.ports.length / 2));
  return {groups: [...groups.values()], specific: new Set([...counts].filter(([, count]) => count <= most).map(([rule]) => rule))};
}

function shapeOf({port, endpoints}: PortOnNode): string {
  const {protocol, externalPolicyLocal, internalPolicyLocal, nodePort, loadBalancerVIPs, externalIPs} = port;
  return [
    protocol,
    externalPolicyLocal,
    internalPolicyLocal,
    nodePort !== 0,
    loadBalancerVIPs.length > 0,
    externalIPs.length > 0,
    endpoints.hasAny,
    endpoints.local.length > 0,
  ].join();
}

/** What is wrong with one entry from one source, and the rule that does it. */
interface Found {
  readonly kind: 'entry-taken-by-other-rule' | 'dropped-by-other-rule' | 'forward-blocked' | 'undecided-path' | 'postrouting-broken';
  readonly probe: Probe;
  readonly detail: string;
  readonly rule: Rule | null;
}

function judgeGroup(item: PortOnNode, {expected, actual, view}: ForeignCase, environment: Environment): readonly Found[] {
  const found = new Map<string, Found>();
  for (const probe of probesFor({item, context: expected.context, hairpins: []})) {
    if (probe.knownTo.size > 0) continue;
    const alone = fateOf(walkPacket(view, probe.packet, environment));
    const all = walkPacket(actual, probe.packet, environment);
    const fate = fateOf(all);
    for (const outcome of all) {
      const result = judgeOutcome(outcome, {probe, alone, fate});
      const key = result === null ? '' : `${result.kind} ${entryText(probe.entry)} ${result.rule?.text ?? ''}`;
      if (result !== null && !found.has(key)) found.set(key, result);
    }
  }
  return [...found.values()];
}

interface Walked {
  readonly probe: Probe;
  /** The fate by kube-proxy's rules alone. */
  readonly alone: Fate;
  readonly fate: Fate;
}

/** Null when the outcome is the one of kube-proxy's rules alone, or is not somebody else's doing. */
function judgeOutcome(outcome: Outcome, {probe, alone, fate}: Walked): Found | null {
  const rule = outcome.path.findLast(({chain, target}) => !isKubeProxyChain(chain) && !isKubeProxyChain(target?.name ?? '')) ?? null;
  const who = `packets from ${sourceNames[probe.source.kind]} to its ${entryText(probe.entry)}`;
  if (outcome.verdict === 'undecided') return judgeUndecided(outcome, alone, probe, who);
  if (outcome.verdict === 'drop' || outcome.verdict === 'reject') {
    if (alone.destinations.size === 0 || (outcome.policy === undefined && isKubeProxyChain(outcome.path.at(-1)?.chain ?? ''))) return null;
    const refused = outcome.verdict === 'reject' ? 'refused' : 'dropped';
    const rewritten = outcome.path.some(({target}) => target?.name === 'DNAT');
    const decisive = outcome.policy === undefined ? (outcome.path.at(-1) ?? null) : null;
    if (rewritten && (outcome.policy?.endsWith('/FORWARD') || (decisive !== null && isForwardPath(outcome.path)))) {
      const by =
        decisive === null ? 'because no rule accepts them and the policy of FORWARD is DROP' : "by a rule that is not kube-proxy's";
      return {kind: 'forward-blocked', probe, rule: decisive, detail: `${who} are sent to an endpoint and then ${refused} ${by}`};
    }
    return {
      kind: 'dropped-by-other-rule',
      probe,
      rule: decisive,
      detail: `${who} are ${refused} ${decisive === null ? `by the policy of ${outcome.policy}` : "by a rule that is not kube-proxy's"}`,
    };
  }
  if (rule === null) return null;
  if (outcome.destination !== null && !alone.destinations.has(outcome.destination)) {
    return {
      kind: 'entry-taken-by-other-rule',
      probe,
      rule,
      detail: `${who} are taken to ${outcome.destination} by a rule that is not kube-proxy's and stands before its own`,
    };
  }
  if (outcome.destination === null && alone.destinations.size > 0) {
    if (!takesPackets(rule)) return null;
    return {
      kind: 'entry-taken-by-other-rule',
      probe,
      rule,
      detail: `${who} never reach kube-proxy's rules, because a rule of somebody else's stands before them; they should go to ${describeFate(alone)}`,
    };
  }
  const share = outcome.destination === null ? undefined : alone.destinations.get(outcome.destination);
  if (
    share?.masquerade &&
    !fate.destinations.get(outcome.destination ?? '')?.masquerade &&
    rule.chain !== 'PREROUTING' &&
    takesPackets(rule) &&
    rule.table === 'nat'
  ) {
    return {
      kind: 'postrouting-broken',
      probe,
      rule,
      detail: `${who} should be masqueraded, and a rule of somebody else's takes them before KUBE-POSTROUTING`,
    };
  }
  return null;
}

/** An interface that is not known is no riddle of the rules, and network policies are for their own tools to judge. */
function judgeUndecided(outcome: Outcome, alone: Fate, probe: Probe, who: string): Found | null {
  if (alone.undecided > 0) return null;
  const rule = outcome.doubt ?? outcome.path.at(-1) ?? null;
  if (rule === null || isKubeProxyChain(rule.chain) || isPolicyChain(rule.chain) || isPolicyChain(rule.target?.name ?? '')) return null;
  if (outcome.doubt?.options.some(({flag}) => flag === '-i' || flag === '-o')) return null;
  return {kind: 'undecided-path', probe, rule, detail: `what becomes of ${who} cannot be told: ${outcome.reason ?? ''}`};
}

function isForwardPath(path: readonly Rule[]): boolean {
  const hook = path.findLast(({chain}) => ['FORWARD', 'INPUT', 'OUTPUT', 'POSTROUTING', 'PREROUTING'].includes(chain));
  return hook?.chain === 'FORWARD' || hook?.chain === 'POSTROUTING';
}

/** A rule that ends the way through its table. */
function takesPackets({target}: Rule): boolean {
  return ['ACCEPT', 'RETURN', 'DNAT', 'REDIRECT', 'NOTRACK', 'CT', 'MASQUERADE', 'SNAT'].includes(target?.name ?? '');
}

function ofPort({kind, probe, detail, rule}: Found, {port}: PortOnNode): Symptom {
  return {kind, family: port.family, port, entry: probe.entry, detail, expected: [], actual: rule === null ? [] : [rule]};
}

function ofNode({kind, probe, detail, rule}: Found, ports: readonly PortOnNode[]): Symptom {
  const scope = `${ports.length} Service ${ports.length === 1 ? 'port' : 'ports'}, such as ${ports[0]?.port.servicePortName ?? ''}`;
  const {family} = probe.packet;
  return {
    kind,
    family,
    port: null,
    detail: `${detail.replace(' its ', ' the ')} (${scope})`,
    expected: [],
    actual: rule === null ? [] : [rule],
  };
}
