import type {LinkProperty} from '../model/node/node-facts.ts';
import type {Address} from '../model/address.ts';
import {type AddressInterval, parseInterval} from '../parse/nftables/address-list.ts';
import {
  askAddress,
  askLocal,
  type Environment,
  firstOf,
  type HookName,
  isAddressOfClient,
  isInterfaceLike,
  type Packet,
  sourceBehind,
  stateOf,
  tcpFlags,
} from './walked-packet.ts';
import type {Field, FieldName} from './rule-language.ts';

/** A packet at a hook, with what conditions need. */
export interface PacketAt {
  readonly packet: Packet;
  readonly environment: Environment;
  /** Null if it is not known from which hook the chain is called. */
  readonly hook: HookName | null;
  /** The priority of the base chain. */
  readonly priority: number;
}

/** The value of a field for a packet. */
export type PacketValue =
  /** The packet has no such field, like TCP flags in a UDP packet: the condition fails, whatever the operator. */
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
  | {
      readonly kind: 'interface';
      readonly name: string | null;
      readonly side: 'in' | 'out';
      readonly isClient?: boolean;
      readonly about?: LinkProperty;
      /** It is one of these, where the name is not known. */
      readonly among?: readonly string[];
    }
  /** A number from `first` on, `count` of them, all equally likely. */
  | {readonly kind: 'random' | 'hash'; readonly first: number; readonly count: number}
  /** An unknown number of a range. */
  | {readonly kind: 'between'; readonly low: number; readonly high: number}
  /** A date that is this one or later. */
  | {readonly kind: 'since'; readonly date: string};

const none: PacketValue = {kind: 'none'};
const unknown: PacketValue = {kind: 'unknown'};

export function fieldValue(field: Field, at: PacketAt): PacketValue {
  const {packet} = at;
  if (field.of !== undefined && field.of !== packet.family && field.of !== packet.protocol) return none;
  const read = readers[field.name];
  return read === undefined ? connectionValue(field.name, at) : read(packet, at, field);
}

/** How the fields of packets are read; those that are not here are of connections. */
const readers: Readonly<Partial<Record<FieldName, (packet: Packet, at: PacketAt, field: Field) => PacketValue>>> = {
  saddr: (packet, at) => {
    const address = sourceAt(at);
    if (address === null) return unknown;
    return {kind: 'address', address, isClient: address === packet.source && isAddressOfClient(packet, 'source')};
  },
  daddr: ({destination, client}) => ({kind: 'address', address: destination, isClient: client === 'destination'}),
  sport: (packet, at) => {
    if (isIcmp(packet)) return none;
    const {connection, sourcePort, client} = packet;
    if (connection?.direction === 'reply' && connection.rewritten && isBehindTranslation(at)) return number(connection.first.port);
    return sourcePort === undefined ? unknown : {kind: 'number', value: sourcePort, isClient: client === 'source'};
  },
  dport: packet => {
    if (isIcmp(packet)) return none;
    return {kind: 'number', value: packet.port, isClient: packet.client === 'destination', isDrawn: packet.isPortDrawn === true};
  },
  protocol: protocolValue,
  nfproto: familyWord,
  ethertype: ({family}) => word(family === 'IPv4' ? 'ip' : 'ip6'),
  'ip version': ({family}) => number(family === 'IPv4' ? 4 : 6),
  'header length': () => number(5),
  length: (packet, _, {of}) => lengthOf(packet, of === 'IPv6'),
  content: ({protocol, connection}) => (protocol === 'tcp' && connection === undefined ? word() : unknown),
  'fragment offset': () => number(0),
  hops: ({hops}) => (hops === undefined ? {kind: 'between', low: fewestHops, high: 255} : number(hops)),
  tos: ({tos}) => (tos === undefined ? unknown : number(tos)),
  dscp: ({tos}) => (tos === undefined ? unknown : word(...classesOf(tos >> 2))),
  realm: ({family}, {environment}) => (environment.isWithoutRealms?.(family) === true ? number(0) : unknown),
  ipsec: (_, {environment}) => (environment.isWithoutIPsec === true ? word('missing', '0') : unknown),
  'tcp flags': packet => {
    if (packet.protocol !== 'tcp') return none;
    return {kind: 'flags', flags: tcpFlags(packet).map(flag => flag.toLowerCase()), unsure: ['ecn', 'cwr']};
  },
  'segment size': packet =>
    packet.protocol === 'tcp' && tcpFlags(packet).includes('SYN') ? {kind: 'between', low: 536, high: 9000} : none,
  iif: (_, at, {about}) => asked(inInterface(at), about),
  oif: (_, at, {about}) => asked(outInterface(at), about),
  'saddr oif': (packet, at) => (isOfNeighbors(packet) ? unknown : interfaceTo('source', at)),
  'daddr oif': (packet, at) => (isOfNeighbors(packet) ? unknown : interfaceTo('destination', at)),
  'next hop': (packet, at) => {
    const gateway = isOfNeighbors(packet) ? null : (at.environment.gatewayTo?.(packet) ?? null);
    return gateway === null ? unknown : gateway === '' ? fieldValue({name: 'daddr'}, at) : word(gateway);
  },
  mark: ({mark}) => number(mark),
  'icmp type': packet => (isIcmp(packet) ? word(...(icmpTypes[packet.icmpType ?? (packet.protocol === 'icmp' ? 8 : 128)] ?? [])) : none),
  'packet type': packet => (isOfNeighbors(packet) ? unknown : word('host', 'unicast')),
  'saddr type': (packet, at, field) => (isOfNeighbors(packet) ? unknown : addressType(field, at)),
  'daddr type': (packet, at, field) => (isOfNeighbors(packet) ? unknown : addressType(field, at)),
  // Assumes symmetric routing: the packet arrived on the interface by which replies leave.
  'reverse path': packet => (isOfNeighbors(packet) ? unknown : word('exists')),
  random: (_packet, _at, {first = 0, count = 0}) => ({kind: 'random', first, count}),
  hash: (_packet, _at, {first = 0, count = 0}) => ({kind: 'hash', first, count}),
  'extension header': () => word('missing', '0'),
  socket: ({origin}) => word(origin === 'node' ? 'exists' : 'missing'),
  owner: ({origin}) => (origin === 'node' ? unknown : none),
  time: () => ({kind: 'since', date: firstDate}),
  none: packet => (isIcmp(packet) ? unknown : none),
  unknown: () => unknown,
  ipvs: ({virtual}) => word(virtual === undefined ? 'no' : 'yes'),
  'ipvs protocol': ofVirtualServer(protocolValue),
  'ipvs address': ofVirtualServer(({client}, {destination}) => ({
    kind: 'address',
    address: destination,
    isClient: client === 'destination',
  })),
  'ipvs port': ofVirtualServer((_, {port}) => number(port)),
  'ipvs direction': ofVirtualServer(() => word('original')),
  'ipvs method': ofVirtualServer(() => word('MASQ')),
};

type Virtual = NonNullable<Packet['virtual']>;

function ofVirtualServer(read: (packet: Packet, virtual: Virtual) => PacketValue): (packet: Packet) => PacketValue {
  return packet => (packet.virtual === undefined ? none : read(packet, packet.virtual));
}

function asked(value: PacketValue, about: Field['about']): PacketValue {
  return about === undefined || value.kind !== 'interface' ? value : {...value, about};
}

function number(value: number): PacketValue {
  return {kind: 'number', value};
}

/**
 * The first packet of TCP is empty, and has at most 40 bytes of options; later ones, and those of other protocols, may have any content. The
 * header of IPv6 names the length of what follows it.
 */
function lengthOf({family, protocol, connection}: Packet, isPayload: boolean): PacketValue {
  const low = (family === 'IPv4' ? 20 : isPayload ? 0 : 40) + (protocol === 'tcp' ? 20 : 8);
  return {kind: 'between', low, high: protocol === 'tcp' && connection === undefined ? low + 40 : 65_535};
}

/** A class of service as numbers and as names: `cs1`, `af31`, `ef`. */
function classesOf(value: number): readonly string[] {
  const [group, precedence] = [value >> 3, (value & 7) / 2];
  const name = value === 46 ? 'ef' : precedence === 0 ? `cs${group}` : `af${group}${precedence}`;
  return [name, String(value), `0x${value.toString(16).padStart(2, '0')}`];
}

/** Clients start with 60 or more, and no path to a node takes so many of them. */
const fewestHops = 20;

/** This program read no node before. */
const firstDate = '2025-01-01';

/** Sources are translated by POSTROUTING and INPUT, after this priority. */
const translationPriority = 100;

function isBehindTranslation({hook, priority}: PacketAt): boolean {
  return hook === 'egress' || ((hook === 'postrouting' || hook === 'input') && priority > translationPriority);
}

/** Null if the source is unknown that the packet has there. */
function sourceAt(at: PacketAt): Address | null {
  const {packet, environment} = at;
  return isBehindTranslation(at) || packet.masquerade ? sourceBehind(packet, environment) : packet.source;
}

function word(...words: readonly string[]): PacketValue {
  return {kind: 'word', words};
}

function familyWord({family}: Packet): PacketValue {
  return word(family === 'IPv4' ? 'ipv4' : 'ipv6');
}

/** Of a connection with a zone in one direction, `ct zone` is not clear. */
function zoneValue({zone = {original: 0, reply: 0}}: Packet): PacketValue {
  return zone.original === zone.reply ? number(zone.original) : unknown;
}

function protocolValue({protocol}: Packet): PacketValue {
  if (protocol === 'icmpv6') return word('icmpv6', 'ipv6-icmp', '58');
  return word(protocol, protocolNumbers[protocol] ?? protocol);
}

/** An echo request has no ports; its other fields are not modeled. */
function isIcmp({protocol}: Packet): boolean {
  return protocol === 'icmp' || protocol === 'icmpv6';
}

/** What asks for a neighbor, or answers, has addresses that no route is about. */
function isOfNeighbors({icmpType}: Packet): boolean {
  return icmpType !== undefined;
}

/** As iptables and nft write them. */
const icmpTypes: Readonly<Record<number, readonly string[]>> = {
  8: ['8', '8/0', 'echo-request', 'ping'],
  128: ['128', '128/0', 'echo-request', 'ping'],
  135: ['135', '135/0', 'nd-neighbor-solicit', 'neighbor-solicitation', 'neighbour-solicitation'],
  136: ['136', '136/0', 'nd-neighbor-advert', 'neighbor-advertisement', 'neighbour-advertisement'],
};

const protocolNumbers: Readonly<Record<string, string>> = {icmp: '1', tcp: '6', udp: '17', sctp: '132'};

/** An arriving packet has never arrived on loopback; a packet that the node sends has no input interface. */
function inInterface({packet, hook, environment}: PacketAt): PacketValue {
  if (hook === 'output' || (packet.origin === 'node' && packet.inInterface === null)) return {kind: 'interface', name: '', side: 'in'};
  // The loopback interface does not follow from the source: all own addresses are on it. Nor does one that was given.
  const isOfSource = packet.origin !== 'node' && packet.inInterface === (environment.interfaceOf?.(packet.source) ?? null);
  return {kind: 'interface', name: packet.inInterface, side: 'in', isClient: packet.client === 'source' && isOfSource};
}

/** There is no output interface before routing or on input. */
function outInterface({packet, hook, environment}: PacketAt): PacketValue {
  if (hook === 'ingress' || hook === 'prerouting' || hook === 'input') return {kind: 'interface', name: '', side: 'out'};
  const toItself = packet.origin === 'node' && !packet.rewritten && environment.isLocal(packet.destination) === true;
  return {kind: 'interface', name: packet.outInterface ?? (toItself ? 'lo' : null), side: 'out', isClient: packet.client === 'destination'};
}

/** By routes; which one the kernel names for its own addresses differs by version. */
function interfaceTo(side: 'source' | 'destination', {packet, environment}: PacketAt): PacketValue {
  const address = packet[side];
  askLocal(side, packet, environment);
  const isLocal = environment.isLocal(address);
  const holder = isLocal === true ? (environment.interfaceWith?.(address) ?? null) : null;
  if (isLocal !== false && holder === null) return unknown;
  const value = {kind: 'interface', side: side === 'source' ? 'in' : 'out', isClient: isAddressOfClient(packet, side)} as const;
  return holder === null ? {...value, name: environment.interfaceOf?.(address) ?? null} : {...value, name: null, among: ['lo', holder]};
}

/**
 * The type that routes give an address, as flags: whether it is one of the node's own may be unknown. iptables counts an own IPv6 address
 * among the unicast ones too (`match_type6` of `xt_addrtype`).
 */
function addressType({name, ofInterface}: Field, at: PacketAt): PacketValue {
  const {packet, environment} = at;
  const side = name === 'saddr type' ? 'source' : 'destination';
  const address = side === 'source' ? sourceAt(at) : packet.destination;
  if (address === null) return unknown;
  const isLocal = environment.isLocal(address);
  askLocal(side, packet, environment);
  const local = isLocal === true && ofInterface !== undefined ? isOfInterface(address, ofInterface, at) : isLocal;
  if (ofInterface !== undefined && local === null) return unknown;
  if (isMulticast(address)) return {kind: 'flags', flags: ['multicast'], unsure: []};
  const own = local === true ? ['local'] : local === false ? ['unicast'] : [];
  // Of IPv6 these types follow from routes; of IPv4 table local alone is asked (`inet_addr_type`).
  const unsure = local === true || address.family === 'IPv4' ? [] : ['blackhole', 'unreachable', 'prohibit'];
  if (local === null) unsure.push('local', 'unicast', 'broadcast', 'anycast');
  if (address.text === '255.255.255.255') unsure.push('broadcast');
  return {kind: 'flags', flags: address.family === 'IPv6' ? [...own, 'ipv6-unicast'] : own, unsure};
}

/** Whether an address of the node is one of the interface by which a packet arrives or leaves; null if it is unknown. */
function isOfInterface(address: Address, way: NonNullable<Field['ofInterface']>, {packet, environment}: PacketAt): boolean | null {
  const [dev, side] = way === 'iif' ? ([packet.inInterface, 'source'] as const) : ([packet.outInterface, 'destination'] as const);
  const holder = environment.interfaceWith?.(address) ?? null;
  if (dev === null || holder === null) return null;
  askAddress(environment.behind?.(holder, packet.family) ?? [], side, packet, environment);
  return dev === holder;
}

function isMulticast({family, text, value}: Address): boolean {
  return family === 'IPv4' ? value >> 28n === 14n : text.startsWith('ff');
}

/** Connection tracking runs at this priority; before it, every packet is invalid. */
const trackingPriority = -200;

export function isBeforeTracking({hook, priority}: Pick<PacketAt, 'hook' | 'priority'>): boolean {
  return hook === 'ingress' || ((hook === 'prerouting' || hook === 'output') && priority <= trackingPriority);
}

/** The first packet of a connection is new, and translated once its address was rewritten. */
function connectionValue(name: FieldName, at: PacketAt): PacketValue {
  const {packet} = at;
  // On the loopback interface the packet keeps its connection.
  if (isBeforeTracking(at) && !packet.untracked && packet.inInterface !== 'lo')
    return name === 'ct state' ? {kind: 'flags', flags: ['invalid'], unsure: []} : none;
  const state = stateOf(packet);
  if (name === 'ct state') return {kind: 'flags', flags: [state], unsure: []};
  if (packet.untracked || state === 'invalid') return none;
  return ofConnections[name]?.(packet, at) ?? unknown;
}

const ofConnections: Readonly<Partial<Record<FieldName, (packet: Packet, at: PacketAt) => PacketValue>>> = {
  'ct status': connectionStatus,
  'ct mark': ({connectionMark}) => number(connectionMark),
  'ct direction': ({connection}) => (connection?.direction === 'reply' ? word('reply', '1') : word('original', '0')),
  'ct protocol': protocolValue,
  'ct family': familyWord,
  // Only connections that a helper expects have one to ask for.
  'ct helper': () => none,
  'ct label': ({isLabeled, connection}) => ((isLabeled ?? connection?.isLabeled) === true ? unknown : word('')),
  'ct zone': zoneValue,
  'ct original saddr': packet => ({kind: 'address', address: firstOf(packet).source, isClient: packet.client !== undefined}),
  'ct original daddr': packet => ({kind: 'address', address: firstOf(packet).destination}),
  'ct original dport': packet => number(firstOf(packet).port),
  'ct original sport': clientPort,
  'ct reply saddr': packet => ({kind: 'address', address: answeringEnd(packet).address}),
  'ct reply daddr': (_, at) => askedEnd(at),
  'ct reply sport': packet => number(answeringEnd(packet).port),
  // Masquerading may draw another one, from where clients have theirs.
  'ct reply dport': packet => ((packet.connection ?? packet).masquerade ? {kind: 'between', low: 1024, high: 65_535} : clientPort(packet)),
};

function clientPort(packet: Packet): PacketValue {
  const {sourcePort} = firstOf(packet);
  return sourcePort === undefined ? unknown : {kind: 'number', value: sourcePort, isClient: packet.client !== undefined};
}

/** Who sends the replies. */
function answeringEnd({connection, source, sourcePort = 0, destination, port}: Packet): {readonly address: Address; readonly port: number} {
  if (connection === undefined) return {address: destination, port};
  return connection.direction === 'reply' ? {address: source, port: sourcePort} : {address: connection.destination, port: connection.port};
}

/** Whom the replies are sent to: the client, or the address that its packets were given. */
function askedEnd(at: PacketAt): PacketValue {
  const {packet, environment} = at;
  const {connection, source, inInterface} = packet;
  const first = firstOf(packet);
  // A reply comes by the interface by which the first packet left.
  const sent = connection?.direction === 'reply' ? {...packet, destination: source, outInterface: inInterface} : packet;
  const address = connection === undefined ? sourceAt(at) : connection.masquerade ? masqueraded(sent, environment) : first.source;
  return address === null ? unknown : {kind: 'address', address, isClient: packet.client !== undefined && address === first.source};
}

function masqueraded({connection, ...packet}: Packet, {masqueradeAddress}: Environment): Address | null {
  return connection?.sourceAfter ?? masqueradeAddress?.(packet) ?? null;
}

function connectionStatus(packet: Packet): PacketValue {
  const {connection} = packet;
  const {rewritten, masquerade} = connection ?? packet;
  const flags = [...(rewritten ? ['dnat'] : []), ...(masquerade ? ['snat'] : [])];
  // A connection is confirmed when its first packet leaves, which only that of the node to itself does before it arrives.
  if (connection === undefined)
    return {kind: 'flags', flags: [...flags, ...(packet.inInterface === 'lo' ? ['confirmed'] : [])], unsure: []};
  // What a TCP client sends once it has the reply assures the connection; replies come before it, and after.
  const assured = packet.protocol === 'tcp' && connection.direction === 'original' ? ['assured'] : [];
  return {kind: 'flags', flags: [...flags, 'confirmed', 'seen-reply', ...assured], unsure: ['assured']};
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

function inInterval(text: string, {family, value}: Address): boolean | null {
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
  {name, side, about, among}: PacketValue & {readonly kind: 'interface'},
  text: string,
  {packet, environment}: PacketAt,
): boolean | null {
  if (about !== undefined) {
    const names = environment.linksWith?.(about, text) ?? null;
    return names?.length === 0 ? false : name === null || names === null ? null : names.includes(name);
  }
  // What `fib` asks, too.
  if (text === 'exists' || text === 'missing') return text === 'exists';
  const pattern = text.replace(/\*$/, '+');
  if (among !== undefined) return among.some(one => isInterfaceLike(pattern, one)) ? null : false;
  if (name !== null) return isInterfaceLike(pattern, name);
  // Only packets that the node sends to itself arrive on the loopback interface, and then the interface is known.
  if (pattern === 'lo' && side === 'in') return false;
  return environment.canBeInterface(pattern, side === 'in' ? packet.source : packet.destination);
}
