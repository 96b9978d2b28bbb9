import type {Address} from '../../model/address.ts';
import {type AddressInterval, parseInterval} from '../../parse/nftables/address-list.ts';
import {
  askLocal,
  type Environment,
  firstOf,
  type HookName,
  isInterfaceLike,
  type Packet,
  sourceBehind,
  stateOf,
  tcpFlags,
} from '../packet.ts';

/** A packet at a hook, with what selectors need. */
export interface PacketAt {
  readonly packet: Packet;
  readonly environment: Environment;
  readonly hook: HookName;
  /** The priority of the base chain. */
  readonly priority: number;
}

/** The value of a selector for a packet. */
export type PacketValue =
  /** The packet has no such field, like TCP flags in a UDP packet: the rule does not match, whatever the operator. */
  | {readonly kind: 'none'}
  | {readonly kind: 'unknown'}
  /** `isClient`: it is the one of the sender that stands for a class. `isDrawn`: masquerading drew the port. */
  | {readonly kind: 'address'; readonly address: Address; readonly isClient?: boolean}
  | {readonly kind: 'number'; readonly value: number; readonly isClient?: boolean; readonly isDrawn?: boolean}
  /** All spellings of it, the one of `nft list` first. */
  | {readonly kind: 'word'; readonly words: readonly string[]}
  /** The flags that are set, and those that are unknown. */
  | {readonly kind: 'flags'; readonly flags: readonly string[]; readonly unsure: readonly string[]}
  /** Null if it is unknown which. */
  | {readonly kind: 'interface'; readonly name: string | null; readonly side: 'in' | 'out'; readonly isClient?: boolean}
  /** A number from `first` on, `count` of them, all equally likely. */
  | {readonly kind: 'random'; readonly first: number; readonly count: number};

const none: PacketValue = {kind: 'none'};
const unknown: PacketValue = {kind: 'unknown'};

/** The value of a selector such as `ip daddr` or `fib saddr type`. */
export function packetValue(selector: string, at: PacketAt): PacketValue {
  let known = selectors.get(selector);
  if (known === undefined) known = readSelector(selector);
  return known === null ? unknown : known.read(known.words, at);
}

interface Selector {
  readonly read: SelectorReader;
  readonly words: readonly string[];
}

/** Those of nft: a ruleset has few of them, and asks for them at each rule. */
const selectors = new Map<string, Selector | null>();

function readSelector(text: string): Selector | null {
  const [first = '', ...words] = text.split(' ');
  const read = Object.hasOwn(readers, first) ? readers[first] : undefined;
  const found = read === undefined ? null : {read, words};
  if (selectors.size < maxSelectors) selectors.set(text, found);
  return found;
}

/** A hostile dump may have any number. */
const maxSelectors = 1000;

type SelectorReader = (words: readonly string[], at: PacketAt) => PacketValue;

const readers: Readonly<Record<string, SelectorReader>> = {
  ip: ([field = ''], at) => (at.packet.family === 'IPv4' ? networkField(field, at) : none),
  ip6: ([field = ''], at) => (at.packet.family === 'IPv6' ? networkField(field, at) : none),
  th: ([field = ''], {packet}) => portField(field, packet),
  tcp: ([field = ''], {packet}) => (packet.protocol === 'tcp' ? tcpField(field, packet) : none),
  udp: ([field = ''], {packet}) => (packet.protocol === 'udp' ? portField(field, packet) : none),
  sctp: ([field = ''], {packet}) => (packet.protocol === 'sctp' ? portField(field, packet) : none),
  ...Object.fromEntries(['icmp', 'icmpv6', 'igmp', 'arp', 'ah', 'esp', 'dccp', 'udplite'].map(header => [header, () => none])),
  meta: ([key = ''], at) => metaValue(key, at),
  iifname: (_, at) => inInterface(at),
  iif: (_, at) => inInterface(at),
  oifname: (_, at) => outInterface(at),
  oif: (_, at) => outInterface(at),
  ct: connectionValue,
  fib: fibValue,
  numgen: ([, , count = '', , first = '0']) => ({kind: 'random', first: Number(first), count: Number(count)}),
};

function networkField(field: string, at: PacketAt): PacketValue {
  const {packet} = at;
  if (field === 'saddr') {
    const address = sourceAt(at);
    return address === null ? unknown : {kind: 'address', address, isClient: packet.client === 'source' && address === packet.source};
  }
  if (field === 'daddr') return {kind: 'address', address: packet.destination, isClient: packet.client === 'destination'};
  if (field === 'protocol' || field === 'nexthdr') return protocolValue(packet);
  return field === 'version' ? {kind: 'number', value: packet.family === 'IPv4' ? 4 : 6} : unknown;
}

/** Sources are translated by POSTROUTING, after this priority. */
const translationPriority = 100;

function sourceAt({packet, hook, priority, environment}: PacketAt): Address | null {
  const isBehind = hook === 'egress' || (hook === 'postrouting' && priority > translationPriority);
  return isBehind || packet.masquerade ? sourceBehind(packet, environment) : packet.source;
}

function protocolValue({protocol}: Packet): PacketValue {
  return {kind: 'word', words: [protocol, protocolNumbers[protocol] ?? protocol]};
}

const protocolNumbers: Readonly<Record<string, string>> = {tcp: '6', udp: '17', sctp: '132'};

function portField(field: string, {port, sourcePort, client, isPortDrawn = false}: Packet): PacketValue {
  if (field === 'dport') return {kind: 'number', value: port, isClient: client === 'destination', isDrawn: isPortDrawn};
  return field === 'sport' && sourcePort !== undefined ? {kind: 'number', value: sourcePort, isClient: client === 'source'} : unknown;
}

function tcpField(field: string, packet: Packet): PacketValue {
  if (field !== 'flags') return portField(field, packet);
  return {kind: 'flags', flags: tcpFlags(packet).map(flag => flag.toLowerCase()), unsure: ['ecn', 'cwr']};
}

function metaValue(key: string, at: PacketAt): PacketValue {
  const {packet} = at;
  switch (key) {
    case 'l4proto':
      return protocolValue(packet);
    case 'mark':
      return {kind: 'number', value: packet.mark};
    case 'nfproto':
      return {kind: 'word', words: [packet.family === 'IPv4' ? 'ipv4' : 'ipv6']};
    case 'protocol':
      return {kind: 'word', words: [packet.family === 'IPv4' ? 'ip' : 'ip6']};
    case 'pkttype':
      return {kind: 'word', words: ['host', 'unicast']};
    case 'random':
      return {kind: 'random', first: 0, count: 2 ** 32};
    default:
      return unknown;
  }
}

/** An arriving packet has never arrived on loopback; a packet that the node sends has no input interface. */
function inInterface({packet, hook}: PacketAt): PacketValue {
  if (hook === 'output' || (packet.origin === 'node' && packet.inInterface === null)) return {kind: 'interface', name: '', side: 'in'};
  return {kind: 'interface', name: packet.inInterface, side: 'in', isClient: packet.client === 'source'};
}

/** There is no output interface before routing or on input. */
function outInterface({packet, hook, environment}: PacketAt): PacketValue {
  if (hook === 'ingress' || hook === 'prerouting' || hook === 'input') return {kind: 'interface', name: '', side: 'out'};
  const toItself = packet.origin === 'node' && !packet.rewritten && environment.isLocal(packet.destination) === true;
  return {kind: 'interface', name: packet.outInterface ?? (toItself ? 'lo' : null), side: 'out', isClient: packet.client === 'destination'};
}

/** Connection tracking runs at this priority; before it, every packet is invalid. */
const trackingPriority = -200;

export function isBeforeTracking({hook, priority}: Pick<PacketAt, 'hook' | 'priority'>): boolean {
  return hook === 'ingress' || ((hook === 'prerouting' || hook === 'output') && priority <= trackingPriority);
}

/** The first packet of a connection is new, and translated once its address was rewritten. */
function connectionValue(words: readonly string[], at: PacketAt): PacketValue {
  const key = words.join(' ');
  const {packet} = at;
  // On the loopback interface the packet keeps its connection.
  if (isBeforeTracking(at) && !packet.untracked && packet.inInterface !== 'lo')
    return key === 'state' ? {kind: 'flags', flags: ['invalid'], unsure: []} : none;
  const {connection} = packet;
  if (key === 'state') return {kind: 'flags', flags: [stateOf(packet)], unsure: []};
  if (packet.untracked || stateOf(packet) === 'invalid') return none;
  if (key === 'status') {
    const {rewritten, masquerade} = connection ?? packet;
    const flags = [...(rewritten ? ['dnat'] : []), ...(masquerade ? ['snat'] : [])];
    if (connection === undefined) return {kind: 'flags', flags, unsure: ['confirmed']};
    return {
      kind: 'flags',
      flags: [...flags, 'confirmed', ...(connection.direction === 'original' ? ['seen-reply'] : [])],
      unsure: ['assured'],
    };
  }
  if (key === 'mark') return {kind: 'number', value: packet.connectionMark};
  if (key === 'direction') return {kind: 'word', words: connection?.direction === 'reply' ? ['reply', '1'] : ['original', '0']};
  return key.startsWith('original ') ? originalValue(key, firstOf(packet), packet.client !== undefined) : unknown;
}

function originalValue(key: string, {source, destination, port}: ReturnType<typeof firstOf>, isClient: boolean): PacketValue {
  if (/^original (?:ip6? )?saddr$/.test(key)) return {kind: 'address', address: source, isClient};
  if (/^original (?:ip6? )?daddr$/.test(key)) return {kind: 'address', address: destination};
  return key === 'original proto-dst' ? {kind: 'number', value: port} : unknown;
}

/** `fib saddr type`, `fib daddr . iif type`, `fib saddr . iif oif`. */
function fibValue(words: readonly string[], at: PacketAt): PacketValue {
  const {packet, environment} = at;
  const result = words.at(-1);
  // Assumes symmetric routing: the packet arrived on the interface by which replies leave.
  if (result !== 'type') return words[0] === 'saddr' ? {kind: 'word', words: ['exists']} : unknown;
  const side = words[0] === 'saddr' ? 'source' : 'destination';
  const address = side === 'source' ? sourceAt(at) : packet.destination;
  if (address === null) return unknown;
  const local = environment.isLocal(address);
  askLocal(side, packet, environment);
  // It is unknown whether it is one of that interface's addresses.
  if (local === null || (local && (words.includes('iif') || words.includes('oif')))) return unknown;
  return {kind: 'word', words: [local ? 'local' : isMulticast(address) ? 'multicast' : 'unicast']};
}

function isMulticast({family, text, value}: Address): boolean {
  return family === 'IPv4' ? value >> 28n === 14n : text.startsWith('ff');
}

/** Whether a value equals the constant, or is in the prefix or range, of a rule or element. Null if unknown. */
export function isConstant(value: PacketValue, text: string, at: PacketAt): boolean | null {
  switch (value.kind) {
    case 'none':
      return false;
    case 'address':
      return inInterval(text, value.address);
    case 'number':
      return inNumbers(text, value.value);
    case 'word':
      return isWord(value.words, text);
    case 'flags':
      return hasFlag(value, text);
    case 'interface':
      return isInterface(value, text, at);
    default:
      return null;
  }
}

const intervals = new Map<string, AddressInterval | null>();

function inInterval(text: string, {family, value}: {readonly family: string; readonly value: bigint}): boolean | null {
  let interval = intervals.get(text);
  if (interval === undefined) {
    interval = parseInterval(text);
    if (intervals.size > 100_000) intervals.clear();
    intervals.set(text, interval);
  }
  if (interval === null) return null;
  return interval.family === family && interval.low <= value && value <= interval.high;
}

/** `80`, `0x00000001` or `1000-2000`; null for a word. */
export function numberRange(text: string): readonly [low: number, high: number] | null {
  const [low = '', high = low] = text.split('-');
  return isNumber.test(low) && isNumber.test(high) ? [Number(low), Number(high)] : null;
}

const isNumber = /^(?:\d+|0x[0-9a-f]+)$/i;

function inNumbers(text: string, value: number): boolean | null {
  const range = numberRange(text);
  return range === null ? null : range[0] <= value && value <= range[1];
}

/** `exists` and `missing` are also spelled as numbers. */
function isWord(words: readonly string[], text: string): boolean | null {
  if (words.includes('exists')) return text === 'missing' || text === '0' ? false : text === 'exists' ? true : null;
  return words.includes(text);
}

/** `new,established`: any of them is enough. */
function hasFlag({flags, unsure}: {readonly flags: readonly string[]; readonly unsure: readonly string[]}, text: string): boolean | null {
  const asked = flagNames(text);
  if (asked.some(flag => flags.includes(flag))) return true;
  return asked.some(flag => unsure.includes(flag) || isNumber.test(flag)) ? null : false;
}

export function flagNames(text: string): readonly string[] {
  return text.split(/[,|()]/).filter(flag => flag !== '');
}

function isInterface(
  {name, side}: PacketValue & {readonly kind: 'interface'},
  text: string,
  {packet, environment}: PacketAt,
): boolean | null {
  const pattern = text.replace(/\*$/, '+');
  if (name !== null) return isInterfaceLike(pattern, name);
  // Only packets that the node sends to itself arrive on the loopback interface, and then the interface is known.
  if (pattern === 'lo' && side === 'in') return false;
  return environment.canBeInterface(pattern, side === 'in' ? packet.source : packet.destination);
}
