import {isInterfaceLike} from '../packet.ts';
import {type AddressInterval, parseInterval} from '../../parse/nftables/address-list.ts';
import type {PacketAt, PacketValue} from './packet-value.ts';

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
