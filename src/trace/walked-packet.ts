import type {LinkProperty} from '../model/node/node-facts.ts';
import type {Address, Family} from '../model/address.ts';
import {holds, type Intervals, subtract} from '../model/intervals.ts';
import {once} from '../model/once.ts';
import type {Rule, RuleText} from '../model/ruleset.ts';
import type {VirtualServer} from '../model/virtual-server.ts';
import {allAddresses, type SenderConditions} from './sender-space.ts';
import type {NftRule} from '../model/nft-ruleset.ts';

/** The outcome of a packet: the end of one path through the rules. */
export interface Outcome {
  readonly verdict: 'accept' | 'reject' | 'drop' | 'undecided';
  /** `ip:port` that the packet was rewritten to; null when it was not. */
  readonly destination: string | null;
  readonly probability: number;
  readonly masquerade: boolean;
  /** The address that SNAT gives the packet. */
  readonly sourceAfter?: Address;
  /** The rules that it matched, in order. */
  readonly path: readonly NodeRule[];
  /** Where the packet was rewritten to before the outcome became undecided. */
  readonly rewrittenTo?: string;
  /** It was rewritten to that whatever is unknown. */
  readonly isRewrittenAnyway?: true;
  /** For an undecided outcome, what is unknown. */
  readonly reason?: string;
  /** The kernel drops it, or sends it elsewhere, although all rules accept it (`Environment.obstacle`). */
  readonly isUnrouted?: true;
  /** It is undecided because a dump is truncated, which is a finding of its own. */
  readonly isTruncated?: true;
  /** The base chain whose policy dropped the packet, if no rule did: `table/chain`. */
  readonly policy?: string;
  /** The rule whose match is unknown, if it is one rule. */
  readonly doubt?: NodeRule;
  /** The outcome without the rules whose match is unknown, where it is lost with them. */
  readonly otherwise?: Outcome;
}

/** A packet at one point of its path through the rules: the first of a new connection, unless it has a `connection`. */
export interface Packet {
  readonly family: Family;
  /** `tcp`, `udp` or `sctp`. */
  readonly protocol: string;
  readonly source: Address;
  readonly destination: Address;
  readonly port: number;
  /** Left out if any: then a condition on it is unknown. */
  readonly sourcePort?: number;
  /** The client's side of the packet, where it stands for all senders that the rules on its path cannot tell apart. */
  readonly client?: 'source' | 'destination' | undefined;
  /** `node` for a packet that a process of the node itself sends; all others arrive. */
  readonly origin: 'node' | 'arriving';
  /** Null if unknown. */
  readonly inInterface: string | null;
  readonly outInterface: string | null;
  readonly mark: number;
  readonly connectionMark: number;
  /** The destination was rewritten (DNAT or REDIRECT). */
  readonly rewritten: boolean;
  /** The source will be rewritten (MASQUERADE or SNAT). */
  readonly masquerade: boolean;
  /** The address of SNAT; left out for MASQUERADE, which takes that of the output interface. */
  readonly sourceAfter?: Address;
  /** The source before it was masqueraded: of a packet that the node sent to itself, and that has its new one. */
  readonly sourceBefore?: Address;
  /** The ports of which the kernel draws the new source port; left out where it keeps that of the client. */
  readonly drawnPorts?: Intervals;
  /** Of a reply to such a packet: its destination port is a drawn one. */
  readonly isPortDrawn?: boolean;
  /** Connection tracking was switched off for it (NOTRACK), and with it all address translation. */
  readonly untracked: boolean;
  /** The destination before IPVS forwarded it to a real server. */
  readonly virtual?: {readonly destination: Address; readonly port: number};
  /** The destination before it was rewritten. */
  readonly original?: {readonly destination: Address; readonly port: number};
  /** The zones of connection tracking for both directions, where a rule set one; otherwise 0. */
  readonly zone?: {readonly original: number; readonly reply: number};
  /** The number of hops that a rule left it. */
  readonly hops?: number;
  /** The type of service that a rule gave it. */
  readonly tos?: number;
  /** A rule gave its connection a label. */
  readonly isLabeled?: true;
  /** Of ICMP; left out for an echo request. */
  readonly icmpType?: number;
  /** TPROXY gives it to a program of the node, whatever its destination. */
  readonly captured?: true;
  /** Of a packet that is not the first of its connection. */
  readonly connection?: Connection;
}

/** What is the same of all packets that no rule has changed, and whose interfaces are not known. */
export const untouched = {
  inInterface: null,
  outInterface: null,
  mark: 0,
  connectionMark: 0,
  rewritten: false,
  masquerade: false,
  untracked: false,
} as const;

/** A tracked connection, as later packets of it find it. */
export interface Connection extends Pick<Packet, 'destination' | 'port' | 'rewritten' | 'masquerade' | 'sourceAfter' | 'isLabeled'> {
  readonly direction: 'original' | 'reply';
  /** Whether any address of it is translated: if such a packet is not recognized, it does not arrive. */
  readonly isTranslated: boolean;
  /** The first packet, as it arrived. */
  readonly first: Pick<Packet, 'source' | 'sourcePort' | 'destination' | 'port'>;
  /** The zone in which a packet of this direction is looked up. */
  readonly zone: number;
  /** Which side is the client's once the destination is translated. */
  readonly client: Packet['client'];
  /** Connection tracking saw no reply to the first packet. */
  readonly isUnanswered?: boolean;
}

/** The state that connection tracking gives a packet; a TCP packet is invalid if it continues no connection that is known. */
export function stateOf({untracked, connection, protocol, zone}: Packet): 'untracked' | 'new' | 'established' | 'invalid' {
  if (untracked) return 'untracked';
  if (connection === undefined) return 'new';
  const isKnown = (zone?.[connection.direction] ?? 0) === connection.zone && connection.isUnanswered !== true;
  return isKnown ? 'established' : protocol === 'tcp' ? 'invalid' : 'new';
}

/** What matching needs to know about the node beside its rules. */
export interface Environment {
  /** Whether an address is one of the node's own; null if unknown. */
  isLocal(address: Address): boolean | null;
  /** Whether a packet whose interface is unknown, with this address on that side, arrives on or leaves by an interface of this name. */
  canBeInterface(name: string, address: Address): boolean | null;
  /** Whether an address is in an ipset; null if the set was not read. */
  inSet(name: string, packet: Packet, directions: string, questions?: SenderQuestions): boolean | null;
  /** The virtual server of IPVS that matches a packet; left out if the node has none. */
  virtualServer?(packet: Packet): VirtualServer | undefined;
  /** The `recent` lists that already contain the packet's source. */
  readonly knownTo: ReadonlySet<string>;
  /** The address that REDIRECT sends arriving packets to; null if unknown. */
  redirectAddress(packet: Packet): Address | null;
  /** The interfaces without an address of IPv4: the kernel drops what REDIRECT takes of packets that arrive there. */
  readonly bareInterfaces?: ReadonlySet<string>;
  /** Whether other hosts know the way to an address of the node: not by themselves, if the loopback alone has it. */
  isKnownOutside?(address: Address): boolean;
  /** The source that MASQUERADE gives a packet where it leaves; null if unknown. */
  masqueradeAddress?(packet: Packet): Address | null;
  /** Whether an interface is a port of a bridge or bond, whose name packets have on the later path. */
  isPortOf?(port: string, name: string): boolean;
  /** Whether an interface, or any if it is not known, is a bridge that has ports; null if that is unknown. */
  isBridge?(name: string | null): boolean | null;
  /** The node's own addresses of a family, where they are all known. */
  localAddresses?(family: Family): Intervals;
  /** The interface that has an address of the node; null if unknown. */
  interfaceWith?(address: Address): string | null;
  /** The interface by which packets to an address leave; null if unknown. */
  interfaceOf?(address: Address): string | null;
  /** The gateway to which a packet leaves, empty without one; null if that is unknown. */
  gatewayTo?(packet: Packet): string | null;
  /** The interface by which a packet arrives: that of the address which it asks, or the one that leads back to its sender; null if unknown. */
  arrivesBy?(packet: Packet, environment: Environment): string | null;
  /** The number of hops that packets of the node's own get over IPv4; null if unknown. */
  readonly ownHops?: number | null;
  /** No packet is one of IPsec; left out or false if that is unknown. */
  readonly isWithoutIPsec?: boolean;
  /** Whether a program reads one of some queues of packets; null if unknown. */
  readsQueue?(low: number, high: number): boolean | null;
  /** Whether packets match the condition of a limit that is far above what Services are asked for; null for other conditions. */
  belowLimit?(condition: string): 0 | 1 | null;
  /** Whether no packet of a family gets a realm from the route that it takes. */
  isWithoutRealms?(family: Family): boolean;
  /** The names of the interfaces of a group, or of a kind; null if that is unknown. */
  linksWith?(property: LinkProperty, value: string): readonly string[] | null;
  /** The addresses behind interfaces whose names match a pattern such as `cali+`, or are these; null if unknown. */
  behind?(pattern: string | ReadonlySet<string>, family: Family): Intervals | null;
  /** The interfaces that routes name. */
  interfaces?(family: Family): readonly string[];
  /** Left out where each interface is asked for by itself. */
  readonly alike?: AlikeInterfaces | undefined;
  /** Why the kernel does not send a packet on, or does not take one that is for the node; null if it does, or if that is unknown. */
  obstacle?(packet: Packet, environment: Environment): string | null;
  /** Whether the next hop of a packet that leaves sends it on to its destination; null if that is unknown. */
  isSentOn?(packet: Packet): boolean | null;
  /** Why the kernel refuses a connection of the node itself before any rule is asked; null if it does not, or if that is unknown. */
  ownObstacle?(packet: Packet): string | null;
  /** Why the kernel drops a packet where it arrives, once its destination is translated; null if it does not, or if that is unknown. */
  arrivalObstacle?(packet: Packet, environment: Environment): string | null;
  /**
   * Why it is not known whether a packet gets to its destination by the way that it takes, unless its source then is one of those known there.
   * Without `isKnown`, no source is.
   */
  doubtedWay?(packet: Packet, environment: Environment): {readonly reason: string; readonly isKnown?: (source: Address) => boolean} | null;
  /** Whether an address is known as one of an endpoint, a pod or a node; left out where it matters to none. */
  isKnown?(address: Address): boolean;
  /** Collects what rules ask of the sender. */
  readonly sender?: SenderConditions | undefined;
  /** Collects what rules ask of a drawn port: all ports with the same answer. */
  readonly drawnPort?: (alike: Intervals) => void;
}

/** Interfaces whose packets meet the same rules. */
export interface AlikeInterfaces {
  /**
   * The addresses behind all interfaces like this one, for the packets of a client that arrive by them or for established replies that leave
   * by them; null if that is unknown.
   */
  behind(name: string, way: 'in' | 'out'): Intervals | null;
  /** Whether the rules of a chain were compared. */
  covers(table: string, chain: string): boolean;
}

/** Where the conditions of rules are noted. */
export type SenderQuestions = Pick<Environment, 'sender' | 'drawnPort' | 'behind'>;

/** The rules that a packet matched, the last one first. */
export interface Path {
  readonly rule: NodeRule;
  readonly before: Path | null;
}

export function pathRules(path: Path | null): readonly NodeRule[] {
  const rules: NodeRule[] = [];
  for (let at = path; at !== null; at = at.before) rules.push(at.rule);
  return rules.reverse();
}

/** Whether an interface has a name like `cali+`, or `cali*` as nftables writes it. */
export function isInterfaceLike(pattern: string, name: string): boolean {
  return /[+*]$/.test(pattern) ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

type Side = 'source' | 'destination';

/** A packet of the node to itself whose source was translated has another one than its client. */
export function isAddressOfClient({client, source, sourceBefore = source}: Packet, side: Side): boolean {
  return client === side && (side === 'destination' || source.value === sourceBefore.value);
}

/** Notes that the path depends on whether the address of one side is one of these, if that is the client's. */
export function askAddress(values: Intervals, side: Side, packet: Packet, {sender}: Environment): void {
  if (sender === undefined || !isAddressOfClient(packet, side)) return;
  sender.add('address', holds(values, packet[side].value) ? values : othersThan[packet.family](values));
}

/** All other addresses of a family: a list of thousands of them is asked for in each walk. */
const othersThan: Readonly<Record<Family, (values: Intervals) => Intervals>> = {
  IPv4: once(values => subtract(allAddresses('IPv4'), values)),
  IPv6: once(values => subtract(allAddresses('IPv6'), values)),
};

/** Notes the ports with the same answer, where the port of a side stands for others; null where it is that one alone. */
export function portQuestion(side: Side, packet: Packet, {sender, drawnPort}: SenderQuestions): ((alike: Intervals) => void) | null {
  if (side === 'destination' && packet.isPortDrawn === true) return drawnPort ?? null;
  return sender === undefined || packet.client !== side ? null : alike => sender.add('port', alike);
}

/** The interface of the client's side follows from its address. In a chain that was compared for alike ones, these are one answer. */
export function askInterface(
  pattern: string,
  side: Side,
  packet: Packet,
  environment: Environment,
  place: Pick<RuleText, 'table' | 'chain'>,
): void {
  if (environment.sender === undefined || packet.client !== side || packet.origin === 'node') return;
  const behind = alikeAddresses(packet, side, environment, place) ?? environment.behind?.(pattern, packet.family) ?? null;
  if (behind !== null) askAddress(behind, side, packet, environment);
}

/** The addresses behind the interfaces that are like the one of an address, for the rules of a chain; null where each is asked by itself. */
export function alikeAddresses(
  packet: Packet,
  side: Side,
  {alike, interfaceOf}: Environment,
  {table, chain}: Pick<RuleText, 'table' | 'chain'>,
): Intervals | null {
  if (alike?.covers(table, chain) !== true || (side === 'destination' && stateOf(packet) !== 'established')) return null;
  const name = interfaceOf?.(packet[side]) ?? null;
  return name === null ? null : alike.behind(name, side === 'source' ? 'in' : 'out');
}

export function askLocal(side: Side, packet: Packet, environment: Environment): void {
  const own: Intervals | undefined = environment.localAddresses?.(packet.family);
  if (own !== undefined) askAddress(own, side, packet, environment);
}

/** The first packet of a TCP connection has SYN set and no other flag, its reply SYN and ACK, and all others ACK. */
export function tcpFlags({connection}: Packet): readonly string[] {
  return connection === undefined ? ['SYN'] : connection.direction === 'reply' ? ['SYN', 'ACK'] : ['ACK'];
}

/** The first packet of the connection, as it arrived. */
export function firstOf(packet: Packet): Connection['first'] {
  const {connection, source, sourceBefore = source, original, virtual} = packet;
  return connection?.first ?? {...packet, source: sourceBefore, ...(original ?? virtual)};
}

/** The source that a packet has once it passed POSTROUTING, where sources are translated; null if it is unknown. */
export function sourceBehind(packet: Packet, {masqueradeAddress}: Environment): Address | null {
  const {connection, source, sourceBefore} = packet;
  if (connection?.direction === 'reply') return connection.rewritten ? connection.first.destination : source;
  const {masquerade, sourceAfter} = connection ?? packet;
  if (!masquerade || sourceBefore !== undefined) return source;
  return sourceAfter ?? masqueradeAddress?.(packet) ?? null;
}

/** `ingress` and `egress` are those of an interface: packets of others do not pass their chains. */
export const hookNames = ['ingress', 'prerouting', 'input', 'forward', 'output', 'postrouting', 'egress'] as const;

export type HookName = (typeof hookNames)[number];

/** What one of the ways through a node does to a connection. */
export interface ConnectionOutcome extends Outcome, Pick<Packet, 'drawnPorts'> {
  /** The later packet that does not arrive, although the first one does. */
  readonly lost?: {
    readonly packet: 'reply' | 'next';
    readonly outcome: Outcome;
    /** The share of these connections, where chance decides, or the source port that is drawn for them; otherwise left out. */
    readonly share?: number;
  };
  readonly otherwise?: ConnectionOutcome;
}

/** An outcome that is undecided although the connection is lost in any case is that without the rules whose match is unknown. */
export function inAnyCase<O extends ConnectionOutcome>(outcome: O): O | NonNullable<O['otherwise']> {
  const {otherwise} = outcome;
  return otherwise !== undefined && isLost(otherwise) ? otherwise : outcome;
}

/** Whether a connection is surely lost: its first packet, or a later one. */
export function isLost({verdict, lost}: ConnectionOutcome): boolean {
  return verdict === 'drop' || verdict === 'reject' || (lost !== undefined && isLost(inAnyCase(lost.outcome)));
}

/** A rule on the path through a node: one of iptables has its parsed parts, one of nftables its body. */
export type NodeRule = RuleText & Partial<Omit<Rule, keyof RuleText>> & Partial<Omit<NftRule, keyof RuleText>>;

/** Equal where packets end alike, whatever their paths. */
export function endsOf(outcomes: readonly Pick<Outcome, 'verdict' | 'destination'>[]): string {
  return JSON.stringify([...new Set(outcomes.map(({verdict, destination}) => `${verdict} ${destination}`))].sort());
}
