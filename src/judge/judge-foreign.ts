import type {ExpectedRuleset} from '../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../expect/iptables/service-rules.ts';
import {parseAddress} from '../model/address.ts';
import {entryText} from '../model/entry.ts';
import type {Rule, Ruleset} from '../model/ruleset.ts';
import type {Environment} from '../trace/packet.ts';
import {type Outcome, walkPacket} from '../trace/walk-packet.ts';
import {environmentOf} from './environment.ts';
import {concerns, type ForeignRule, foreignRules, isKubeProxyChain, isPolicyChain} from './foreign-rules.ts';
import {addressesOf, type Probe, probesFor} from './probes.ts';
import {entriesOf} from './entries.ts';
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
  const ofAll = new Map<string, {found: Found; ports: PortOnNode[]}>();
  for (const {ports, specific} of groupPorts(expected, rules, environment)) {
    const [first] = ports;
    if (first === undefined) continue;
    if (specific && ports.length <= mostNamed) {
      symptoms.push(...ports.flatMap(item => mergeAlike(judgeGroup(item, given, environment)).map(found => ofPort(found, item))));
      continue;
    }
    for (const found of mergeAlike(judgeGroup(first, given, environment))) {
      const known = ofAll.get(keyOf(found));
      if (known === undefined) ofAll.set(keyOf(found), {found, ports: [...ports]});
      else known.ports.push(...ports);
    }
  }
  return [...[...ofAll.values()].map(({found, ports}) => ofNode(found, ports)), ...symptoms];
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

interface Group {
  readonly ports: readonly PortOnNode[];
  /** Some foreign rule names the address or port of just these Service ports. */
  readonly specific: boolean;
}

function groupPorts(expected: ExpectedRuleset, rules: readonly ForeignRule[], environment: Environment): readonly Group[] {
  const groups = new Map<string, {ports: PortOnNode[]; specific: boolean}>();
  const narrow = rules.filter(({conditions}) => conditions.ports.length > 0 || conditions.destinations.length > 0);
  for (const item of expected.ports) {
    const concerned = narrow.filter(rule =>
      targetsOf(item, rule.stage, expected, environment).some(target => concerns(rule.conditions, target)),
    );
    const {port, endpoints} = item;
    const shape = [
      port.protocol,
      port.externalPolicyLocal,
      port.internalPolicyLocal,
      port.nodePort !== 0,
      port.loadBalancerVIPs.length > 0,
      port.externalIPs.length > 0,
      endpoints.hasAny,
      endpoints.local.length > 0,
    ];
    const key = `${concerned.map(({rule}) => `${rule.table}/${rule.chain}/${rule.line}`).join()} ${shape.join()}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, {ports: [item], specific: concerned.length > 0});
    else group.ports.push(item);
  }
  return [...groups.values()];
}

interface Target {
  readonly address: NonNullable<ReturnType<typeof parseAddress>>;
  readonly local: boolean;
  readonly protocol: string;
  readonly port: number;
}

/** Where packets of a Service port are addressed to: before routing its entries, after it its endpoints too. */
function targetsOf(
  {port, endpoints}: PortOnNode,
  stage: 'before' | 'after',
  {context}: ExpectedRuleset,
  environment: Environment,
): readonly Target[] {
  const entries = entriesOf(port, context).flatMap(entry => addressesOf(entry, context).map(address => ({address, port: entry.port})));
  const all = stage === 'before' ? entries : [...entries, ...endpoints.reachable];
  return all.flatMap(({address: text, port: number}) => {
    const address = parseAddress(text);
    return address === null
      ? []
      : [{address, local: environment.isLocal(address) === true, protocol: port.protocol.toLowerCase(), port: number}];
  });
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

/** A rule that names more Services than this is said of the node. */
const mostNamed = 50;

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
