import {type Address, canonicalAddress, contains, parseAddress, parseCidr} from '../../model/address.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import type {Packet} from '../packet.ts';

/** Whether a packet is in an ipset; `directions` is `src` or `dst` for each part of an element. Null if unknown. */
export function isInSet(set: IpSet, packet: Packet, directions: string): boolean | null {
  const sides = directions.split(',');
  const matches = (element: readonly string[]): boolean | null => matchElement({set, element, sides}, packet);
  const members = candidates(set, packet, sides).filter(element => matches(element) !== false);
  const certain = members.filter(element => matches(element) === true);
  const exceptions = set.exceptions.filter(element => matches(element) !== false);
  if (exceptions.length > 0) return isExcepted(certain, exceptions);
  return certain.length > 0 ? true : members.length > 0 ? null : false;
}

/** Of several networks that contain an address, the narrowest decides; null if it is unknown which that is. */
function isExcepted(certain: readonly (readonly string[])[], exceptions: readonly (readonly string[])[]): boolean | null {
  const narrowest = (elements: readonly (readonly string[])[]): number =>
    Math.max(-1, ...elements.map(([part = '']) => parseCidr(part)?.prefix ?? -1));
  const [inside, outside] = [narrowest(certain), narrowest(exceptions)];
  return inside === outside ? null : inside > outside;
}

interface Matched {
  readonly set: IpSet;
  readonly element: readonly string[];
  readonly sides: readonly string[];
}

function matchElement({set, element, sides}: Matched, packet: Packet): boolean | null {
  let unknown = false;
  for (const [index, part] of set.parts.entries()) {
    const matched = matchPart(part, element[index] ?? '', sides[index] ?? sides.at(-1) ?? 'dst', packet);
    if (matched === false) return false;
    if (matched === null) unknown = true;
  }
  return unknown ? null : true;
}

/** Elements that begin with the packet's own address or port, and elements whose text does not show it. */
function candidates(set: IpSet, packet: Packet, sides: readonly string[]): readonly (readonly string[])[] {
  if (set.elements.length <= smallSet || (set.parts[0] !== 'ip' && set.parts[0] !== 'port')) return set.elements;
  let index = indexes.get(set);
  if (index === undefined) {
    index = Map.groupBy(set.elements, ([first = '']) => (isPlain(first) ? first : ''));
    indexes.set(set, index);
  }
  const address = sides[0] === 'src' ? packet.source : packet.destination;
  const key = set.parts[0] === 'ip' ? address.text : String(packet.port);
  return [...(index.get(key) ?? []), ...(index.get('') ?? [])];
}

const smallSet = 16;
const indexes = new WeakMap<IpSet, ReadonlyMap<string, readonly (readonly string[])[]>>();

/** One address in canonical spelling, or a bare port. */
function isPlain(text: string): boolean {
  return /^\d+$/.test(text) || canonicalAddress(text) === text;
}

function matchPart(part: string, value: string, side: string, packet: Packet): boolean | null {
  const address: Address = side === 'src' ? packet.source : packet.destination;
  if (part === 'ip' || part === 'net') return matchAddress(value, address);
  if (part === 'port') return side === 'src' ? null : matchPort(value, packet);
  return null;
}

function matchAddress(value: string, address: Address): boolean | null {
  if (value === address.text) return true;
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
