import {holds, type Intervals, intersect, intervalsOf, subtract} from '../../model/intervals.ts';
import type {NftSet} from '../../model/nft-ruleset.ts';
import type {NftExpression, NftListElement, NftOperator} from '../../model/nft-statement.ts';
import {parseInterval} from '../../parse/nftables/address-list.ts';
import {allAddresses, allPorts} from '../sender-space.ts';
import type {ElementLookup} from './look-up-element.ts';
import {isConstant, numberRange} from './match-value.ts';
import type {PacketAt, PacketValue} from './packet-value.ts';

/** Notes for which senders a lookup has the result that it has for this one. `*` stands for all that no other element names. */
export function askLookup(
  key: readonly PacketValue[],
  where: NftSet | readonly NftListElement[],
  at: PacketAt,
  found: ElementLookup,
): void {
  const {sender} = at.environment;
  if (sender === undefined || found.kind === 'unknown') return;
  for (const [index, value] of key.entries()) {
    if (!('isClient' in value) || value.isClient !== true) continue;
    const isPort = value.kind === 'number';
    const all = isPort ? allPorts : allAddresses(at.packet.family);
    const ranges = (): readonly Range[] => rangesOf(key, index, 'elements' in where ? [...where.elements.values()] : where, at);
    const known = 'elements' in where && key.length === 1 ? once(where, at.packet.family, ranges) : ranges();
    const own = intervalsOf(known.filter(range => found.kind === 'found' && range.value === found.value).map(toPair));
    const current = numberIn(value, at);
    const isNamed = current !== null && holds(own, current);
    sender.ask(isPort ? 'port' : 'address', isNamed ? own : subtract(all, intervalsOf(known.map(toPair))));
  }
}

interface Range {
  readonly low: bigint;
  readonly high: bigint;
  readonly value: string | null;
}

const toPair = ({low, high}: Range): readonly [bigint, bigint] => [low, high];

/** What the elements say of one part of the key, where their other parts match. */
function rangesOf(key: readonly PacketValue[], index: number, elements: readonly NftListElement[], at: PacketAt): readonly Range[] {
  return elements.flatMap(element => {
    const parts = element.key.split(' . ');
    if (element.key === '*' || key.some((value, other) => other !== index && isConstant(value, parts[other] ?? '', at) === false))
      return [];
    return intervalsFor(key[index], parts[index] ?? '', at).map(([low, high]) => ({low, high, value: element.value}));
  });
}

function intervalsFor(value: PacketValue | undefined, text: string, {packet, environment}: PacketAt): Intervals {
  if (value?.kind === 'interface') return environment.behind?.(text.replace(/\*$/, '+'), packet.family) ?? [];
  if (value?.kind === 'number') {
    const range = numberRange(text);
    return range === null || !range.every(Number.isSafeInteger) ? [] : [[BigInt(range[0]), BigInt(range[1])]];
  }
  const interval = parseInterval(text);
  return interval === null || interval.family !== packet.family ? [] : [[interval.low, interval.high]];
}

/** The client's own number; of an interface, that of the address behind it. */
function numberIn(value: PacketValue, {packet}: PacketAt): bigint | null {
  if (value.kind === 'number') return BigInt(value.value);
  if (value.kind === 'address') return value.address.value;
  return value.kind === 'interface' ? packet[value.side === 'in' ? 'source' : 'destination'].value : null;
}

/** A set may have a hundred thousand elements. */
function once(set: NftSet, family: string, make: () => readonly Range[]): readonly Range[] {
  const made = kept.get(set) ?? new Map<string, readonly Range[]>();
  kept.set(set, made);
  const known = made.get(family) ?? make();
  made.set(family, known);
  return known;
}

const kept = new WeakMap<NftSet, Map<string, readonly Range[]>>();

/** `th sport >= 1024`. */
export function askComparison(value: number, operator: NftOperator, right: NftExpression, {environment: {sender}}: PacketAt): void {
  const range = right.kind === 'value' ? numberRange(right.text) : null;
  if (sender === undefined || range === null || !range.every(Number.isSafeInteger)) return;
  const [low, high] = [BigInt(range[0]), BigInt(range[1])];
  const inside: Readonly<Record<NftOperator, Intervals>> = {
    '==': [[low, high]],
    '!=': [[low, high]],
    '<': [[0n, low - 1n]],
    '>=': [[0n, low - 1n]],
    '>': [[0n, high]],
    '<=': [[0n, high]],
  };
  const ports = intersect(inside[operator], allPorts);
  sender.ask('port', holds(ports, BigInt(value)) ? ports : subtract(allPorts, ports));
}
