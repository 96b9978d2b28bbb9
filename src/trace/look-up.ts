import type {Family} from '../model/address.ts';
import {holds, type Intervals, intervalsOf, placeIn, subtract} from '../model/intervals.ts';
import {keptWith} from '../model/once.ts';
import type {NftListElement, NftSet} from '../model/nft-ruleset.ts';
import {parseInterval} from '../parse/nftables/address-list.ts';
import {isConstant, numberRange, type PacketAt, type PacketValue} from './field-value.ts';
import {alikeAddresses} from './walked-packet.ts';
import type {Elements} from './rule-language.ts';
import {allAddresses, allPorts} from './sender-space.ts';

/** A packet at a chain, with the sets that its rules use. */
export interface Evaluation extends PacketAt {
  /** The place of the rules, as their senders' interfaces are compared: a chain of iptables, or a table of nftables. */
  readonly place: {readonly table: string; readonly chain: string};
  set(name: string): NftSet | undefined;
}

/** The result of a lookup in a set or map for a packet. */
export type ElementLookup =
  | {readonly kind: 'found'; readonly value: string | null}
  | {readonly kind: 'absent'}
  | {readonly kind: 'unknown'};

const absent: ElementLookup = {kind: 'absent'};
const unknown: ElementLookup = {kind: 'unknown'};

/** The result for a key of the right side of a comparison, or of a map. Notes for which senders it is the same. */
export function lookUp(key: readonly PacketValue[], where: Elements, at: Evaluation): ElementLookup {
  const set = where.kind === 'set' ? at.set(where.name) : undefined;
  const elements = where.kind === 'list' ? where.elements : set;
  if (elements === undefined) return unknown;
  const found = set !== undefined ? lookUpSet(key, set, at) : lookUpList(key, where.kind === 'list' ? where.elements : [], at);
  const {sender, drawnPort} = at.environment;
  if (sender !== undefined || drawnPort !== undefined) askLookup(key, elements, at, found);
  return found;
}
/** Looks up a key in a named set or map, which may have many elements. The key is a concatenation, usually of one or three values. */
function lookUpSet(key: readonly PacketValue[], set: NftSet, at: PacketAt): ElementLookup {
  if (at.environment.knownTo.has(set.name)) return {kind: 'found', value: null};
  const text = exactText(key);
  const exact = text === null ? undefined : set.elements.get(text);
  if (exact !== undefined) return {kind: 'found', value: exact.value};
  const found =
    text !== null && !set.flags.includes('interval') && !set.elements.has('*') ? absent : lookUpList(key, candidates(key, set), at);
  return found.kind === 'absent' && !set.complete ? unknown : found;
}

/** The elements that may hold a key. Of a list of networks, which is sorted once, it is the one around the address. */
function candidates([value, ...others]: readonly PacketValue[], set: NftSet): Iterable<NftListElement> {
  const all = set.elements.values();
  if (value?.kind !== 'address' || others.length > 0 || set.elements.size <= smallSet) return all;
  const {family, value: address} = value.address;
  const networks = keptWith(set, `networks ${family}`, () => networksOf(set, family));
  if (networks === null) return all;
  const element = networks.elements[placeIn(networks.ranges, address) ?? -1];
  return element === undefined ? networks.unread : [element, ...networks.unread];
}

const smallSet = 16;

/**
 * The elements of one family in the order of their addresses; null where some overlap, which the kernel does not take. `ranges`: of each
 * element. `unread`: those that are no addresses, such as `*`.
 */
function networksOf(set: NftSet, family: Family) {
  const all = [...set.elements.values()].map(element => ({element, interval: parseInterval(element.key)}));
  const sorted = all
    .flatMap(({element, interval}) => (interval?.family === family ? {element, ...interval} : []))
    .sort((a, b) => (a.low < b.low ? -1 : 1));
  if (sorted.some(({low}, index) => low <= (sorted[index - 1]?.high ?? -1n))) return null;
  const unread = all.filter(({interval}) => interval === null).map(({element}) => element);
  return {ranges: sorted.map(toPair), elements: sorted.map(({element}) => element), unread};
}

/** The key in the spelling of an element; null if it has none, for example if a value is unknown. */
function exactText(key: readonly PacketValue[]): string | null {
  const parts: string[] = [];
  for (const value of key) {
    if (value.kind === 'address') parts.push(value.address.text);
    else if (value.kind === 'number') parts.push(String(value.value));
    else if (value.kind === 'word') parts.push(value.words[0] ?? '');
    else return null;
  }
  return parts.join(' . ');
}

/** Looks up a key by comparing it with the elements one by one. `*` stands for every key that no other element matches. */
function lookUpList(key: readonly PacketValue[], elements: Iterable<NftListElement>, at: PacketAt): ElementLookup {
  let isUnsure = false;
  let others: ElementLookup = absent;
  for (const element of elements) {
    if (element.key === '*') {
      others = {kind: 'found', value: element.value};
      continue;
    }
    const matched = matchElement(key, element.key.split(' . '), at);
    if (matched) return {kind: 'found', value: element.value};
    if (matched === null) isUnsure = true;
  }
  return isUnsure ? unknown : others;
}

function matchElement(key: readonly PacketValue[], parts: readonly string[], at: PacketAt): boolean | null {
  let result: boolean | null = true;
  for (const [index, value] of key.entries()) {
    const part = isConstant(value, parts[index] ?? '', at);
    if (part === false) return false;
    if (part === null) result = null;
  }
  return result;
}

/** Notes for which senders a lookup has the result that it has for this one. `*` stands for all that no other element names. */
function askLookup(key: readonly PacketValue[], where: NftSet | readonly NftListElement[], at: Evaluation, found: ElementLookup): void {
  if (found.kind === 'unknown') return;
  for (const [index, value] of key.entries()) {
    const ask = questionOf(value, at);
    if (ask === null) continue;
    const alike = value.kind === 'interface' ? alikeAddresses(at.packet, sideOf(value), at.environment, at.place) : null;
    if (alike !== null) {
      ask(alike);
      continue;
    }
    const all = value.kind === 'number' ? allPorts : allAddresses(at.packet.family);
    const ranges = (): readonly Range[] => rangesOf(key, index, 'elements' in where ? [...where.elements.values()] : where, at);
    // What is behind an interface differs by node, and its rules may be those of several.
    const rest = value.kind === 'interface' && !('elements' in where) ? null : exactText(key.toSpliced(index, 1));
    const known = rest === null ? ranges() : keptWith(where, `${at.packet.family} ${index} ${rest}`, ranges);
    const own = keptWith(known, found.kind === 'found' ? `found ${found.value}` : found.kind, () =>
      intervalsOf(known.filter(range => found.kind === 'found' && range.value === found.value).map(toPair)),
    );
    const others = () => subtract(all, intervalsOf(known.map(toPair)));
    const current = numberIn(value, at);
    ask(current !== null && holds(own, current) ? own : keptWith(known, 'others', others));
  }
}

/** Where the values with the same answer are noted, if the value stands for others. */
export function questionOf(value: PacketValue, {environment: {sender, drawnPort}}: PacketAt): ((alike: Intervals) => void) | null {
  if (value.kind === 'number' && value.isDrawn === true) return drawnPort ?? null;
  if (sender === undefined || !('isClient' in value) || value.isClient !== true) return null;
  return alike => sender.add(value.kind === 'number' ? 'port' : 'address', alike);
}

interface Range {
  readonly low: bigint;
  readonly high: bigint;
  readonly value: string | null;
}

const toPair = ({low, high}: Pick<Range, 'low' | 'high'>): readonly [bigint, bigint] => [low, high];

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
  if (value?.kind === 'interface') {
    const names = value.about === undefined ? text.replace(/\*$/, '+') : new Set(environment.linksWith?.(value.about, text));
    return environment.behind?.(names, packet.family) ?? [];
  }
  if (value?.kind === 'number') {
    const range = numberRange(text);
    return range === null || !range.every(Number.isSafeInteger) ? [] : [[BigInt(range[0]), BigInt(range[1])]];
  }
  const interval = parseInterval(text);
  return interval === null || interval.family !== packet.family ? [] : [[interval.low, interval.high]];
}

/** The client's own number; of an interface, that of the address behind it. */
function numberIn(value: PacketValue, at: PacketAt): bigint | null {
  if (value.kind === 'number') return BigInt(value.value);
  if (value.kind === 'address') return value.address.value;
  return value.kind === 'interface' ? at.packet[sideOf(value)].value : null;
}

function sideOf({side}: PacketValue & {readonly kind: 'interface'}): 'source' | 'destination' {
  return side === 'in' ? 'source' : 'destination';
}
