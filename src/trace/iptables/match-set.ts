import {append, largest} from '../../model/lists.ts';
import {bitsOf, type Address, canonicalAddress, contains, parseAddress, parseCidr} from '../../model/address.ts';
import {holds, intersect, type Intervals, intervalsOf, subtract} from '../../model/intervals.ts';
import {keptWith} from '../../model/once.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import {parseInterval} from '../../parse/nftables/address-list.ts';
import {isAddressOfClient, type Packet, portQuestion, type SenderQuestions} from '../walked-packet.ts';
import {allAddresses, allPorts} from '../sender-space.ts';

/** Whether a packet is in an ipset; `directions` is `src` or `dst` for each part of an element. Null if unknown. */
export function isInSet(
  sets: ReadonlyMap<string, IpSet>,
  name: string,
  packet: Packet,
  directions: string,
  questions: SenderQuestions = {},
): boolean | null {
  const set = sets.get(name);
  if (set === undefined) return null;
  const sides = directions.split(',');
  if (set.type !== 'list:set') return isInOne(set, packet, sides, questions);
  const answers = membersOf(set, sets).map(member => (member === null ? null : isInOne(member, packet, sides, questions)));
  return answers.includes(true) ? true : answers.includes(null) ? null : false;
}

/**
 * The members of a list, once for all packets: those of one type without exceptions are one set, whose senders are asked about once. Null
 * stands for those that are not there, and for lists, since the kernel lets no list be the member of another one.
 */
function membersOf(list: IpSet, sets: ReadonlyMap<string, IpSet>): readonly (IpSet | null)[] {
  return keptWith(list, 'members', () => {
    const all = list.elements.flatMap(([name = '']) => sets.get(name) ?? []).filter(({type}) => type !== 'list:set');
    const alike = Map.groupBy(all, ({name, type, exceptions}) => (exceptions.length > 0 ? `${type} ${name}` : type));
    const merged = [...alike.values()].flatMap(([first, ...rest]) => {
      if (first === undefined || rest.length === 0) return first ?? [];
      const own = [first, ...rest];
      return {...first, elements: own.flatMap(({elements}) => elements), lines: own.flatMap(({lines}) => lines)};
    });
    return all.length < list.elements.length ? [null, ...merged] : merged;
  });
}

function isInOne(set: IpSet, packet: Packet, sides: readonly string[], questions: SenderQuestions): boolean | null {
  askSet(set, sides, packet, questions);
  const matches = (element: readonly string[]): boolean | null => matchElement({set, element, sides}, packet);
  const elements = candidates(set, packet, sides).filter(element => matches(element) !== false);
  const certain = elements.filter(element => matches(element) === true);
  const exceptions = set.exceptions.filter(element => matches(element) !== false);
  if (exceptions.length > 0) return isExcepted(certain, exceptions);
  return certain.length > 0 ? true : elements.length > 0 ? null : false;
}

/** Of several networks that contain an address, the narrowest decides; null if it is unknown which that is. */
function isExcepted(certain: readonly (readonly string[])[], exceptions: readonly (readonly string[])[]): boolean | null {
  const narrowest = (elements: readonly (readonly string[])[]): number =>
    Math.max(-1, largest(elements.map(([part = '']) => parseCidr(part)?.prefix ?? -1)));
  const [inside, outside] = [narrowest(certain), narrowest(exceptions)];
  return inside === outside ? null : inside > outside;
}

/**
 * Notes the senders for which the set has the same answer. If it asks for the port and the address of the sender, the port is noted first:
 * few elements have one from which clients connect. Where networks exclude others, it is the senders between the same two bounds.
 */
function askSet(set: IpSet, sides: readonly string[], packet: Packet, questions: SenderQuestions): void {
  const {isPortDrawn = false} = packet;
  const side = isPortDrawn ? 'destination' : packet.client;
  const {sender} = questions;
  if (side === undefined || (!isPortDrawn && (sender === undefined || !isAddressOfClient(packet, side)))) return;
  const sideOf = (index: number): string => sides[index] ?? sides.at(-1) ?? 'dst';
  const isOwn = (index: number): boolean => sideOf(index) === (side === 'source' ? 'src' : 'dst');
  const indexes = [...set.parts.keys()];
  const fits = (element: readonly string[], places: readonly number[]): boolean =>
    places.every(index => matchPart(set.parts[index] ?? '', element[index] ?? '', sideOf(index), packet) !== false);
  const portIndex = indexes.find(index => isOwn(index) && set.parts[index] === 'port');
  const others = indexes.filter(index => (isPortDrawn ? index !== portIndex : !isOwn(index)));
  const port = side === 'source' ? packet.sourcePort : packet.port;
  const askPorts = portQuestion(side, packet, questions);
  if (portIndex !== undefined && port !== undefined && askPorts !== null) {
    const named = intervalsOf(
      set.elements.filter(element => fits(element, others)).flatMap(element => portRange(element[portIndex] ?? '')),
    );
    const isNamed = holds(named, BigInt(port));
    const isAlone = isPortDrawn || indexes.filter(isOwn).length === 1;
    askPorts(!isNamed ? subtract(allPorts, named) : isAlone ? named : [[BigInt(port), BigInt(port)]]);
    if (!isNamed) return;
  }
  if (isPortDrawn || sender === undefined) return;
  const addresses = indexes.filter(index => isOwn(index) && index !== portIndex);
  const atInterface = addresses.find(index => set.parts[index] === 'iface');
  if (atInterface !== undefined) {
    const fitting = set.elements.filter(element => fits(element, portIndex === undefined ? others : [...others, portIndex]));
    const network = addresses.find(index => index !== atInterface);
    const isWhole = addresses.length === set.parts.length;
    const make = () => (set.exceptions.length > 0 ? null : behindInterfaces(fitting, {atInterface, network}, packet, questions));
    const inside = isWhole ? keptWith(set, `${packet.family} behind`, make) : make();
    const {value} = packet[side];
    if (inside === null) sender.add('address', [[value, value]]);
    else sender.add('address', onTheSameSide(value, inside, allAddresses(packet.family)));
    return;
  }
  for (const index of addresses) {
    const rangesOf = (elements: readonly (readonly string[])[]): readonly (readonly [bigint, bigint])[] =>
      elements
        .filter(element => fits(element, portIndex === undefined ? others : [...others, portIndex]))
        .flatMap(element => addressRange(element[index] ?? '', packet));
    const {value} = packet[side];
    const all = allAddresses(packet.family);
    const isPlain = addresses.length === 1 && set.exceptions.length === 0;
    if (!isPlain) {
      sender.add('address', betweenBounds(value, [...rangesOf(set.elements), ...rangesOf(set.exceptions)], all));
      continue;
    }
    const make = () => intervalsOf(rangesOf(set.elements));
    sender.add('address', onTheSameSide(value, set.parts.length === 1 ? keptWith(set, packet.family, make) : make(), all));
  }
}

/** All that are inside if the value is, otherwise all that are outside. */
function onTheSameSide(value: bigint, inside: Intervals, all: Intervals): Intervals {
  return holds(inside, value) ? inside : keptWith(inside, 'outside', () => subtract(all, inside));
}

/** The largest range around a value that no bound of others crosses. */
function betweenBounds(value: bigint, ranges: readonly (readonly [bigint, bigint])[], all: Intervals): Intervals {
  let [low, high] = all[0] ?? [value, value];
  for (const bound of ranges.flatMap(([from, to]) => [from, to + 1n])) {
    if (bound <= value && bound > low) low = bound;
    if (bound > value && bound - 1n < high) high = bound - 1n;
  }
  return [[low, high]];
}

function addressRange(text: string, {family}: Packet): readonly (readonly [bigint, bigint])[] {
  const interval = parseInterval(text);
  return interval === null || interval.family !== family ? [] : [[interval.low, interval.high]];
}

function portRange(text: string): readonly (readonly [bigint, bigint])[] {
  const [low, high = low] = text.replace(/^[a-z]+:/, '').split('-');
  return low === undefined || !/^\d+$/.test(low) || high === undefined || !/^\d+$/.test(high) ? [] : [[BigInt(low), BigInt(high)]];
}

/** The addresses of elements that are behind the interface of the same element; null if that is not known of one. */
function behindInterfaces(
  elements: readonly (readonly string[])[],
  {atInterface, network}: {readonly atInterface: number; readonly network: number | undefined},
  packet: Packet,
  {behind}: SenderQuestions,
): Intervals | null {
  const found: (readonly [bigint, bigint])[] = [];
  for (const [name, own] of Map.groupBy(elements, element => element[atInterface] ?? '')) {
    const there = name.startsWith('physdev:') ? null : (behind?.(name, packet.family) ?? null);
    if (there === null) return null;
    const ranges = own.flatMap(element =>
      network === undefined ? allAddresses(packet.family) : addressRange(element[network] ?? '', packet),
    );
    append(found, intersect(intervalsOf(ranges), there));
  }
  return intervalsOf(found);
}

function matchElement(
  {set, element, sides}: {readonly set: IpSet; readonly element: readonly string[]; readonly sides: readonly string[]},
  packet: Packet,
): boolean | null {
  let unknown = false;
  for (const [index, part] of set.parts.entries()) {
    const matched = matchPart(part, element[index] ?? '', sides[index] ?? sides.at(-1) ?? 'dst', packet);
    if (matched === false) return false;
    if (matched === null) unknown = true;
  }
  return unknown ? null : true;
}

/**
 * Elements that begin with a network of the packet's address, or with its port, and elements whose text does not show it: a set may hold a
 * hundred thousand networks, which are not read again for each packet.
 */
function candidates(set: IpSet, packet: Packet, sides: readonly string[]): readonly (readonly string[])[] {
  const [first = ''] = set.parts;
  const [address, port] = sides[0] === 'src' ? [packet.source, packet.sourcePort] : [packet.destination, packet.port];
  const isByPort = first === 'port';
  if (set.elements.length <= smallSet || (isByPort ? port === undefined : first !== 'ip' && first !== 'net')) return set.elements;
  const index = keptWith(set, 'index', () => Map.groupBy(set.elements, ([text = '']) => (isByPort ? portKey(text) : networkKey(text))));
  const sizes = keptWith(set, 'sizes', () => new Set([...index.keys()].flatMap(key => key.split(' ').slice(0, -1))));
  const keys = isByPort ? [String(port)] : [...sizes].map(size => `${size} ${address.value >> BigInt(size)}`);
  return ['', ...keys].flatMap(key => index.get(key) ?? []);
}

const smallSet = 16;

/** A bare port; nothing for others. */
function portKey(text: string): string {
  return /^\d+$/.test(text) ? text : '';
}

/** How many bits a network leaves to its hosts, and the others; nothing for what is no network. */
function networkKey(text: string): string {
  const network = text.includes('-') ? null : parseCidr(text);
  if (network === null) return '';
  const size = bitsOf(network.family) - network.prefix;
  return `${size} ${network.base >> BigInt(size)}`;
}

function matchPart(part: string, value: string, side: string, packet: Packet): boolean | null {
  const address: Address = side === 'src' ? packet.source : packet.destination;
  if (part === 'ip' || part === 'net') return matchAddress(value, address);
  if (part === 'iface') {
    const name = side === 'src' ? packet.inInterface : packet.outInterface;
    return name === null || value.startsWith('physdev:') ? null : value === name;
  }
  if (part !== 'port') return null;
  if (side === 'src') return packet.sourcePort === undefined ? null : matchPort(value, {...packet, port: packet.sourcePort});
  return matchPort(value, packet);
}

function matchAddress(value: string, address: Address): boolean | null {
  if (value === address.text) return true;
  // Most elements are another host, whose text needs no reading.
  if (!/[-/]/.test(value) && canonicalAddress(value) === value) return false;
  const [low, high] = value.split('-').map(text => parseAddress(text));
  if (low !== null && low !== undefined && high !== null && high !== undefined)
    return low.value <= address.value && address.value <= high.value;
  const cidr = parseCidr(value);
  return cidr === null ? null : contains(cidr, address);
}

/** `tcp:80`, `80` or `tcp:80-90`. */
function matchPort(value: string, {protocol, port}: Packet): boolean | null {
  const found = /^(?:([a-z]+):)?(\d+)(?:-(\d+))?$/.exec(value);
  if (found === null) return null;
  const low = Number(found[2]);
  return (found[1] ?? protocol) === protocol && low <= port && port <= Number(found[3] ?? low);
}
