import {type Address, contains, parseAddress, parseCidr} from '../model/address.ts';
import type {IpSet} from '../parse/ipset-save.ts';
import type {Packet} from './packet.ts';

/** Whether a packet is in an ipset; `directions` is `src` or `dst` for each part of an element. Null when it cannot be told. */
export function isInSet(set: IpSet, packet: Packet, directions: string): boolean | null {
  const sides = directions.split(',');
  let unknown = false;
  for (const element of set.elements) {
    const matched = set.parts.map((part, index) => matchPart(part, element[index] ?? '', sides[index] ?? sides.at(-1) ?? 'dst', packet));
    if (matched.every(value => value === true)) return true;
    if (!matched.includes(false)) unknown = true;
  }
  return unknown ? null : false;
}

function matchPart(part: string, value: string, side: string, packet: Packet): boolean | null {
  const address: Address = side === 'src' ? packet.source : packet.destination;
  if (part === 'ip' || part === 'net') return matchAddress(value, address);
  if (part === 'port') return side === 'src' ? null : matchPort(value, packet);
  return null;
}

function matchAddress(value: string, address: Address): boolean | null {
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
