import {parseAddress, type Address} from '../model/address.ts';
import {holds, type Intervals} from '../model/intervals.ts';
import type {NftRuleset} from '../model/nft-ruleset.ts';
import type {Ruleset, RuleText} from '../model/ruleset.ts';
import {someOf} from '../model/text.ts';
import {splitHostPort} from '../parse/iptables/comparable-rule.ts';
import {endsOf, type Environment, type Outcome, type Packet} from '../trace/walked-packet.ts';
import {unknownOutside, podsHere} from './outcomes/environment.ts';
import {backendOf, knowsAge, type Side, walkConnection} from '../trace/side.ts';
import {bridgeCalls, bypassReason, podPorts, uplinkWithoutReturn, sendsBack} from '../model/node/bridges.ts';
import type {Link, NodeFacts} from '../model/node/node-facts.ts';
import {bridgeDoubts, doubtText} from './third-party/bridge-rules.ts';

/** An outcome; of a packet that is accepted although the connection fails, that of the reply or of the next packet. */
export interface PacketOutcome extends Outcome, Pick<Packet, 'drawnPorts'> {
  readonly lost?: 'reply' | 'next';
  /** The Service port that the packet was sent to, if it reaches none of its endpoints. */
  readonly noEndpointOf?: string;
  /** The node of the endpoint, to which the packet is sent on, and its rules on the path there; null if they were not read. */
  readonly onward?: {readonly node: string; readonly path: readonly RuleText[] | null};
  /** Of an undetermined outcome in a few words, if they are known: `dropped unless filter/DOCKER-USER decides before`. */
  readonly condition?: string;
  /** Of an undetermined outcome: how the shown rules stop the packet once it is sent on, and which doubt remains about these rules. */
  readonly stopped?: {readonly verdict: 'drop' | 'reject'; readonly unless: string | null};
}

/** A node's rules: of iptables in one family, also of the other backend, and of nftables. */
export type PacketRules =
  | {readonly iptables: Ruleset; readonly nft: NftRuleset | null; readonly others?: readonly Ruleset[]}
  | {readonly iptables: null; readonly nft: NftRuleset; readonly others?: readonly Ruleset[]};

/** Which rule ends a path, in words; empty for one without rules. */
export function byLastRule(path: readonly RuleText[]): string {
  const last = path.at(-1);
  return last === undefined ? '' : `by this rule of ${last.table}/${last.chain}: ${last.text}`;
}

export interface Walked {
  readonly packet: Packet;
  readonly environment: Environment;
  /** The addresses of the node's pods. */
  readonly pods: Intervals;
}

/** Walks a connection through all rules of a node: it is accepted only if the reply and the next packet arrive as well. */
export function walkRules({iptables, nft, others = []}: PacketRules, walked: Walked): readonly PacketOutcome[] {
  const {environment} = walked;
  const own = iptables === null ? [] : [iptables];
  const side: Side = {iptables: [...own, ...others], nft, environment};
  const outcomes = walkIn(side, walked);
  if (nft === null ? !others.some(ruleset => ruleset.hasTable('nat')) : knowsAge(side, 'nat')) return outcomes;
  // Nothing shows which backend's hooks were registered first.
  const swapped = walkIn({iptables: [...others, ...own], nft, environment, isIptablesYounger: true}, walked);
  const textsOf = (found: readonly PacketOutcome[]): string =>
    translatingRules(found)
      .map(({text}) => text)
      .join();
  return endsOf(swapped) === endsOf(outcomes) || textsOf(swapped) === textsOf(outcomes) ? outcomes : [contested(outcomes, swapped)];
}

function translatingRules(outcomes: readonly PacketOutcome[]): readonly RuleText[] {
  return outcomes.flatMap(({path}) => path.filter(({text}) => / -j DNAT |\bdnat /.test(text)));
}

function contested(...orders: readonly (readonly PacketOutcome[])[]): PacketOutcome {
  const texts = orders.map(outcomes => {
    const [rule] = translatingRules(outcomes);
    const tool = rule?.table.includes(' ') === true ? 'nftables' : `iptables-${rule?.backend ?? 'nft'}`;
    const ends = [...new Set(outcomes.map(({verdict, destination}) => (verdict === 'accept' ? (destination ?? 'no endpoint') : verdict)))];
    return `${someOf(ends, {max: 4})} if the hook of ${tool} runs first`;
  });
  const reason = `rules of two backends translate the packet: ${texts.join(', ')}`;
  const path = orders.flatMap(translatingRules);
  return {verdict: 'undecided', destination: null, probability: 1, masquerade: false, path: [...new Set(path)], reason};
}

function walkIn(side: Side, {packet, environment, pods}: Walked): readonly PacketOutcome[] {
  return walkConnection(side, packet, {pods, signature: text => text}).map(({lost, ...rest}, _, all) => {
    const outcome = withBackends(rest, side);
    const {sourceAfter, verdict, destination, path} = outcome;
    // The node itself and a pod of it answer through the node, whatever the address.
    const end = parseAddress(splitHostPort(destination ?? '').address) ?? packet.destination;
    const isHere = environment.isLocal(end) !== false || holds(pods, end.value);
    if (lost !== undefined) {
      const later = withBackends(lost.outcome, side);
      return {
        ...outcome,
        verdict: later.verdict,
        lost: lost.packet,
        path: [...path, ...later.path],
        reason: later.reason ?? outcome.reason,
        policy: later.policy ?? outcome.policy,
      };
    }
    if (verdict !== 'accept' || sourceAfter === undefined || isHere || environment.isLocal(sourceAfter) === null) return outcome;
    if (environment.isLocal(sourceAfter) === true) {
      if (environment.isKnownOutside?.(sourceAfter) !== false) return outcome;
      return {...outcome, verdict: 'undecided', reason: `SNAT gave the packet ${sourceAfter.text}, ${unknownOutside}`};
    }
    const isChance = all.some(other => other.destination === destination && other.sourceAfter === undefined && other.masquerade);
    if (isChance)
      return {
        ...outcome,
        verdict: 'undecided',
        reason: `which address SNAT takes is not known, and the node does not have ${sourceAfter.text}`,
      };
    const reason = `the node does not have the address ${sourceAfter.text} that SNAT gave the packet, so the reply does not come back to it`;
    return {...outcome, verdict: 'drop', lost: 'reply', reason};
  });
}

/** Says of rules and of a policy which backend of iptables has them, where the node has rules in both. */
function withBackends({path, policy, ...outcome}: PacketOutcome, side: Side): PacketOutcome {
  const [table = '', chain = ''] = policy?.split('/', 2) ?? [];
  const holder = policy === undefined ? null : backendOf(side, {table, chain});
  return {
    ...outcome,
    path: path.map(rule => {
      const backend = backendOf(side, rule);
      return backend === null ? rule : {...rule, backend};
    }),
    ...(policy === undefined ? {} : {policy: holder === null ? policy : `${policy} in iptables-${holder}`}),
  };
}

const noReturn = 'the bridge sends no packet back by the port that it came from: hairpin_mode is 0';

/** A packet to or from a pod on a bridge of the node, which the rules of the node accept. */
interface Crossing {
  readonly packet: Packet;
  readonly environment: Environment;
  readonly facts: NodeFacts;
  readonly rules: PacketRules;
}

/** What a bridge does to packets that all rules of the node accept: it drops some of them, or shows their answers to no rule. */
export function acrossBridge(outcome: PacketOutcome, {packet, environment, facts, rules}: Crossing): PacketOutcome {
  const {network} = facts;
  const end = outcome.destination === null ? packet.destination : parseAddress(splitHostPort(outcome.destination).address);
  if (outcome.verdict !== 'accept' || end === null || packet.captured === true) return outcome;
  const bridgeOf = (address: Address): string | null =>
    environment.isLocal(address) === true ? null : (environment.interfaceOf?.(address) ?? null);
  const [from, to] = [packet.origin === 'node' ? null : bridgeOf(packet.source), bridgeOf(end)];
  const bridges = [from, to].flatMap(name => {
    const bridge = podPorts(network, name);
    return name === null || bridge === null ? [] : {...bridge, name};
  });
  const closed = 'the bridge takes nothing from a port that is not in the state forwarding, and sends nothing there';
  const [blocked] = bridges.flatMap(bridge => off(bridge, ({isBlocked}) => isBlocked === true, closed) ?? []);
  const isTold = 'the bridge sends only what is for addresses of its table to a port that learns none, and the table was not read';
  const [told] = bridges.flatMap(bridge => off(bridge, one => one.isTold === true, isTold) ?? []);
  const doubted = told === undefined ? undefined : {...told, verdict: 'undecided' as const};
  const [shared] = from === to ? bridges : [];
  const obstacle = blocked ?? doubted ?? (shared === undefined ? null : obstacleOn(shared, {outcome, packet, end, facts}));
  const uplink = shared === undefined || outcome.destination === null ? null : uplinkWithoutReturn(network, packet.family, shared.name);
  const isBackOut = uplink !== null && ![packet.source, end].some(({value}) => holds(podsHere(facts, packet.family), value));
  if (obstacle === null && isBackOut) return {...outcome, verdict: 'drop', reason: `${noReturn} (${uplink.name} of ${shared?.name})`};
  if (obstacle !== null) return {...outcome, ...obstacle};
  const doubt = bridges.length > 0 ? bridgeDoubts(rules.nft, facts).find(({isOfArp}) => !isOfArp) : undefined;
  if (doubt === undefined) return outcome;
  return {
    ...outcome,
    verdict: 'undecided',
    reason: doubtText(doubt),
    path: [...outcome.path, ...(doubt.rule === null ? [] : [doubt.rule])],
  };
}

interface PodBridge {
  readonly name: string;
  readonly link: Link | undefined;
  readonly ports: readonly Link[];
}

interface Between {
  readonly outcome: PacketOutcome;
  readonly packet: Packet;
  readonly end: Address;
  readonly facts: NodeFacts;
}

/** Why a packet from one port of a bridge to another, or back to the same, is lost. */
function obstacleOn(bridge: PodBridge, {outcome, packet, end, facts}: Between): Pick<PacketOutcome, 'verdict' | 'lost' | 'reason'> | null {
  const {name, link} = bridge;
  const {network} = facts;
  const isItself = packet.source.value === end.value;
  const isolated = ({isIsolated}: Link): boolean => isIsolated;
  if (isItself) {
    // Without br_netfilter packets are routed by the node, which may send them back.
    if (bridgeCalls(network, packet.family) !== 'on' || sendsBack(link, facts)) return null;
    return (
      off(bridge, ({hairpin}) => hairpin === false, noReturn) ??
      off(bridge, isolated, 'the bridge sends nothing from an isolated port back to it')
    );
  }
  const between = off(bridge, isolated, 'the bridge sends nothing from one isolated port to another');
  const bypass = bypassReason(network, packet.family, link);
  if (between !== null || bypass === null || outcome.masquerade || outcome.destination === null) return between;
  const reason = `${bypass}: the endpoint is on the same bridge (${name}) as the client, which gets the answer from an address that it does not know`;
  return {verdict: 'drop', lost: 'reply', reason};
}

/** Which of the ports is the one of a pod is not known. */
function off({name, ports}: PodBridge, isOff: (port: Link) => boolean, reason: string): Pick<PacketOutcome, 'verdict' | 'reason'> | null {
  const count = ports.filter(isOff).length;
  if (count === 0) return null;
  return {verdict: count === ports.length ? 'drop' : 'undecided', reason: `${reason} (${count} of ${ports.length} ports of ${name})`};
}
