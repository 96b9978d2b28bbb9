import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {Family} from '../../model/family.ts';
import type {Severity} from '../../model/finding.ts';
import type {NodeFacts} from '../../model/node-facts.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {plural} from '../../model/text/plural.ts';
import type {Outcome} from '../../trace/outcome.ts';
import type {Environment} from '../../trace/packet.ts';
import type {PathOutcome} from '../outcomes/path-outcome.ts';
import {type Probe, whose} from '../outcomes/probes.ts';
import type {Symptom, SymptomKind} from '../symptoms/symptom.ts';
import {asksForInterface, isOfPolicy, masquerades, type NodeRule, untracks} from './node-rule.ts';

/** What is wrong with one entry from one source, and the rule that does it. */
export interface RuleEffect<R extends RuleText = NodeRule> {
  readonly kind: SymptomKind;
  /** When it is not the usual one of its kind. */
  readonly severity?: Severity;
  readonly probe: Probe;
  readonly detail: string;
  /** Null when it is the policy of a chain, whose name may be in `policy`. */
  readonly rule: R | null;
  readonly policy?: string;
}

/** An effect with the Service ports that it concerns. */
export interface NotedEffect<R extends RuleText, Port extends ServedPort> {
  readonly effect: RuleEffect<R>;
  readonly items: Set<Port>;
}

/** One rule is one finding, with the first entry and source that showed it; one that it harms comes first. */
export function noteEffect<R extends RuleText, Port extends ServedPort>(
  all: Map<string, NotedEffect<R, Port>>,
  effect: RuleEffect<R>,
  items: Iterable<Port>,
): void {
  const key = effectKey(effect);
  const known = all.get(key);
  if (known === undefined || isLess(known.effect, effect)) all.set(key, {effect, items: new Set(items)});
  else if (!isLess(effect, known.effect)) for (const item of items) known.items.add(item);
}

function isLess({severity}: RuleEffect<RuleText>, other: RuleEffect<RuleText>): boolean {
  return severity === 'info' && other.severity !== 'info';
}

/** The same for every effect of a rule of one kind. */
export function effectKey({kind, rule, policy}: RuleEffect<RuleText>): string {
  return [kind, policy, rule?.table, rule?.chain, rule?.line, rule?.text].join(' ');
}

/** For a rule about particular Services. */
export function symptomOfPort<R extends RuleText>({kind, severity, probe, detail, rule}: RuleEffect<R>, {port}: ServedPort): Symptom<R> {
  const base = {kind, family: port.family, port, entry: probe.entry, detail, expected: [], actual: rule === null ? [] : [rule]};
  return severity === undefined ? base : {...base, severity};
}

/** For a rule that concerns the node. */
export function symptomOfNode<R extends RuleText>(
  {kind, severity, detail, rule}: RuleEffect<R>,
  items: Iterable<ServedPort>,
  family: Family,
): Symptom<R> {
  const [first, ...others] = items;
  const scope = `${plural(others.length + 1, 'Service port')}, such as ${first?.port.servicePortName ?? ''}`;
  return {
    ...{kind, family, port: null, expected: [], actual: rule === null ? [] : [rule]},
    detail: `${detail.replace(' its ', ' the ')} (${scope})`,
    ...(severity === undefined ? {} : {severity}),
  };
}

interface Undetermined {
  readonly probe: Probe;
  /** The outcome in kube-proxy's rules alone. */
  readonly alone: PathOutcome<RuleText>;
  /** Whether kube-proxy wrote the rule. */
  readonly isOwn: (rule: NodeRule) => boolean;
  /** A dump of the node's rules is truncated, which is a finding of its own. */
  readonly isCut: boolean;
}

/** Unknown interfaces are not reported, and network policies are evaluated by their own tools. */
export function undeterminedEffect<R extends NodeRule>(
  {doubt, path, reason}: Outcome<R>,
  {probe, alone, isOwn, isCut}: Undetermined,
): RuleEffect<R> | null {
  const rule = doubt ?? path.at(-1);
  if (alone.undecided > 0 || rule === undefined || (doubt === undefined && isCut)) return null;
  if (isOwn(rule) || isOfPolicy(rule) || (doubt !== undefined && asksForInterface(doubt))) return null;
  const detail = `the outcome for ${whose(probe)} is undetermined: ${reason ?? ''}`;
  return {kind: 'undecided-path', probe, rule, detail, ...(masquerades(rule) ? {severity: 'info'} : {})};
}

/** A network policy decides by design which clients it admits. */
export function refusedByPolicy<R extends RuleText>(rule: R, probe: Probe, refused: string): RuleEffect<R> {
  return {kind: 'dropped-by-other-rule', severity: 'info', probe, rule, detail: `${whose(probe)} are ${refused} by a network policy`};
}

/**
 * In iptables mode kube-proxy itself accepts what it masquerades, before any firewall rule. In the other modes it leaves that to the
 * firewall, which need not expect packets from external clients to cluster IPs.
 */
export function ifUnusual({entry, source}: Probe): {readonly severity?: 'info'} {
  return entry.kind === 'clusterIP' && source.kind === 'outside' ? {severity: 'info'} : {};
}

/** A rule that keeps packets from kube-proxy's rules, which send them to `reached`. */
export function interceptedEffect<R extends NodeRule>(
  rule: R,
  probe: Probe,
  {isLocal, reached}: {readonly isLocal: boolean | null; readonly reached: string},
): RuleEffect<R> {
  const kind = 'entry-taken-by-other-rule';
  // NodeLocal DNSCache binds the cluster IP of the DNS Service on the node, and switches connection tracking off for it.
  if (untracks(rule) && probe.packet.port === 53 && (isLocal ?? rule.text.includes('NodeLocal DNS Cache'))) {
    const detail = `${whose(probe)} are answered by the node itself, without kube-proxy's rules: NodeLocal DNSCache has bound the address`;
    return {kind, severity: 'info', probe, rule, detail};
  }
  const detail = `${whose(probe)} never reach kube-proxy's rules, because a third-party rule intercepts them; they should reach ${reached}`;
  return {kind, probe, rule, detail};
}

/** Whether the packet is for one of the node's own addresses; null when the node's interfaces were not read. */
export function isKnownLocal({packet}: Probe, {allAddresses}: NodeFacts, environment: Environment): boolean | null {
  return environment.isLocal(packet.destination) === true ? true : allAddresses ? false : null;
}
