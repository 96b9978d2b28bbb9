import {holds, intersect, type Intervals, intervalsOf, subtract} from '../../model/intervals.ts';
import type {NftExpression, NftListElement, NftOperator, NftSet, NftStatement, NftTableSource} from '../../model/nft-ruleset.ts';
import {parseInterval} from '../../parse/nftables/address-list.ts';
import type {Likelihood} from '../iptables/match-rule.ts';
import {alikeAddresses} from '../packet.ts';
import {allAddresses, allPorts} from '../sender-space.ts';
import {flagNames, isConstant, numberRange, type PacketAt, type PacketValue, packetValue} from './packet-value.ts';

/** A packet at a hook of one table, with the sets that the table's rules use. */
export interface Evaluation extends PacketAt {
  readonly table: NftTableSource;
}

type MatchStatement = NftStatement & {readonly kind: 'match'};

/** How likely a comparison holds: 0 is no, 1 is yes, a value between is random. Null means unknown. */
export function matchLikelihood({left, operator, right}: MatchStatement, at: Evaluation): Likelihood {
  if (left.kind === 'binary') return matchBinary({left, operator, right}, at);
  const key = keyValues(left, at);
  if (key.some(({kind}) => kind === 'none')) return 0;
  const [value] = key;
  if (value?.kind === 'random') return matchRandom(value, operator, right);
  if (operator !== '==' && operator !== '!=') {
    if (value?.kind !== 'number') return null;
    askComparison(value, operator, right, at);
    return compareNumbers(value.value, operator, right);
  }
  const equal = isEqual(key, right, at);
  return equal === null ? null : equal === (operator === '==') ? 1 : 0;
}

/** The values of a selector or of a concatenation. */
function keyValues(expression: NftExpression, at: Evaluation): readonly PacketValue[] {
  if (expression.kind === 'concat') return expression.parts.flatMap(part => keyValues(part, at));
  return [expression.kind === 'selector' ? packetValue(expression.text, at) : numberValue(expression, at)];
}

function numberValue(expression: NftExpression, at: Evaluation): PacketValue {
  const value = numberOf(expression, at);
  return value === null ? {kind: 'unknown'} : {kind: 'number', value};
}

function isEqual(key: readonly PacketValue[], right: NftExpression, at: Evaluation): boolean | null {
  const found = lookUp(key, right, at);
  return found.kind === 'unknown' ? null : found.kind === 'found';
}

/** The result for a key of the right side of a comparison, or of a map. */
function lookUp(key: readonly PacketValue[], where: NftExpression, at: Evaluation): ElementLookup {
  if (where.kind === 'reference') {
    const set = at.table.set(where.set);
    return set === undefined ? unknown : asked(key, set, at, lookUpSet(key, set, at));
  }
  if (where.kind !== 'list' && where.kind !== 'value' && where.kind !== 'concat') return unknown;
  const elements = elementsOf(where, at.table);
  return asked(key, elements, at, lookUpList(key, elements, at));
}

/** Notes for which senders the lookup has this result. */
function asked(
  key: readonly PacketValue[],
  where: NftSet | readonly NftListElement[],
  at: Evaluation,
  found: ElementLookup,
): ElementLookup {
  const {sender, drawnPort} = at.environment;
  if (sender !== undefined || drawnPort !== undefined) askLookup(key, where, at, found);
  return found;
}

function constantText(expression: NftExpression): string {
  if (expression.kind === 'concat') return expression.parts.map(constantText).join(' . ');
  return expression.kind === 'value' ? expression.text : '';
}

/** `meta mark & 0x4000 != 0`, `tcp flags & (syn|ack) == syn`, `meta random & 2147483647 < 1073741824`. */
function matchBinary({left, operator, right}: Pick<MatchStatement, 'left' | 'operator' | 'right'>, at: Evaluation): Likelihood {
  if (left.kind !== 'binary') return null;
  const value = left.left.kind === 'selector' ? packetValue(left.left.text, at) : undefined;
  if (value?.kind === 'none') return 0;
  if (value?.kind === 'flags') return left.operator === '&' ? matchFlags(value, {mask: left.right, operator, right}) : null;
  if (value?.kind === 'random') return matchMaskedRandom(left.right, operator, right);
  const number = numberOf(left, at);
  return number === null ? null : compareNumbers(number, operator, right);
}

interface FlagComparison {
  readonly mask: NftExpression;
  readonly operator: NftOperator;
  readonly right: NftExpression;
}

function matchFlags({flags, unsure}: PacketValue & {readonly kind: 'flags'}, {mask, operator, right}: FlagComparison): Likelihood {
  const masked = flagNames(constantText(mask));
  const wanted = flagNames(constantText(right)).filter(flag => !/^0x0+$|^0$/.test(flag));
  if (masked.length === 0 || masked.some(flag => unsure.includes(flag))) return null;
  const set = flags.filter(flag => masked.includes(flag));
  const equal = set.length === wanted.length && set.every(flag => wanted.includes(flag));
  return operator === '==' || operator === '!=' ? Number(equal === (operator === '==')) : null;
}

function matchMaskedRandom(mask: NftExpression, operator: NftOperator, right: NftExpression): Likelihood {
  const count = Number(constantText(mask)) + 1;
  // Only with a mask of the lowest bits are all numbers equally likely.
  return Number.isInteger(Math.log2(count)) ? matchRandom({kind: 'random', first: 0, count}, operator, right) : null;
}

function matchRandom({first, count}: PacketValue & {readonly kind: 'random'}, operator: NftOperator, right: NftExpression): Likelihood {
  const range = right.kind === 'value' ? numberRange(right.text) : null;
  if (range === null) return null;
  const below = (value: number): number => Math.min(Math.max(value - first, 0), count) / count;
  const [low, high] = range;
  const shares: Readonly<Record<NftOperator, number>> = {
    '==': below(high + 1) - below(low),
    '!=': 1 - below(high + 1) + below(low),
    '<': below(low),
    '<=': below(low + 1),
    '>': 1 - below(low + 1),
    '>=': 1 - below(low),
  };
  return shares[operator];
}

function compareNumbers(value: number, operator: NftOperator, right: NftExpression): Likelihood {
  if (right.kind === 'list') {
    const tests = right.elements.map(({key}) => numberRange(key));
    if (tests.includes(null) || (operator !== '==' && operator !== '!=')) return null;
    return Number(tests.some(range => range !== null && range[0] <= value && value <= range[1]) === (operator === '=='));
  }
  const range = right.kind === 'value' ? numberRange(right.text) : null;
  if (range === null) return null;
  const [low, high] = range;
  const inside = low <= value && value <= high;
  const results: Readonly<Record<NftOperator, boolean>> = {
    '==': inside,
    '!=': !inside,
    '<': value < low,
    '<=': value <= low,
    '>': value > low,
    '>=': value >= low,
  };
  return Number(results[operator]);
}

/** The value of a numeric expression, such as a new mark; null if unknown. */
export function numberOf(expression: NftExpression, at: Evaluation): number | null {
  if (expression.kind === 'value') return numberRange(expression.text)?.[0] ?? null;
  if (expression.kind === 'selector') {
    const value = packetValue(expression.text, at);
    return value.kind === 'number' ? value.value : null;
  }
  if (expression.kind === 'map') {
    const found = choose(expression.key, expression.map, at);
    return found !== null && found.choices.length === 1 && found.rest === 0
      ? (numberRange(found.choices[0]?.value ?? '')?.[0] ?? null)
      : null;
  }
  if (expression.kind !== 'binary') return null;
  const [left, right] = [numberOf(expression.left, at), numberOf(expression.right, at)];
  return left === null || right === null ? null : calculate[expression.operator](left, right) >>> 0;
}

const calculate: Readonly<Record<'&' | '|' | '^' | '<<' | '>>', (a: number, b: number) => number>> = {
  '&': (a, b) => a & b,
  '|': (a, b) => a | b,
  '^': (a, b) => a ^ b,
  '<<': (a, b) => a << b,
  '>>': (a, b) => a >>> b,
};

/** The results of a map: each value with its probability, and the probability that there is none. */
interface Choices {
  readonly choices: readonly {readonly value: string; readonly share: number}[];
  readonly rest: number;
}

/** Looks a key up in a map. Null when the result is unknown. */
export function choose(key: NftExpression, map: NftExpression, at: Evaluation): Choices | null {
  const values = keyValues(key, at);
  if (values.some(({kind}) => kind === 'none')) return {choices: [], rest: 1};
  const [value] = values;
  if (value?.kind === 'random') return drawFrom(value, elementsOf(map, at.table));
  const found = lookUp(values, map, at);
  if (found.kind === 'unknown') return null;
  return found.kind === 'found' && found.value !== null ? {choices: [{value: found.value, share: 1}], rest: 0} : {choices: [], rest: 1};
}

/** All elements of a set or map, or the one value that stands for it. */
export function elementsOf(where: NftExpression, table: Pick<NftTableSource, 'set'>): readonly NftListElement[] {
  if (where.kind === 'list') return where.elements;
  if (where.kind === 'value' || where.kind === 'concat') return [{key: constantText(where), value: null}];
  return where.kind === 'reference' ? [...(table.set(where.set)?.elements.values() ?? [])] : [];
}

function drawFrom({first, count}: PacketValue & {readonly kind: 'random'}, elements: readonly NftListElement[]): Choices {
  const choices: {value: string; share: number}[] = [];
  let rest = 1;
  for (const {key, value} of elements) {
    const [low, high] = numberRange(key) ?? [0, -1];
    const drawn = Math.min(high, first + count - 1) - Math.max(low, first) + 1;
    if (drawn <= 0 || value === null) continue;
    choices.push({value, share: drawn / count});
    rest -= drawn / count;
  }
  return {choices, rest: rest < 1e-9 ? 0 : rest};
}

/** Notes for which senders a lookup has the result that it has for this one. `*` stands for all that no other element names. */
function askLookup(key: readonly PacketValue[], where: NftSet | readonly NftListElement[], at: Evaluation, found: ElementLookup): void {
  if (found.kind === 'unknown') return;
  for (const [index, value] of key.entries()) {
    const ask = questionOf(value, at);
    if (ask === null) continue;
    const alike =
      value.kind === 'interface' ? alikeAddresses(at.packet, sideOf(value), at.environment, {table: at.table.id, chain: ''}) : null;
    if (alike !== null) {
      ask(alike);
      continue;
    }
    const isPort = value.kind === 'number';
    const all = isPort ? allPorts : allAddresses(at.packet.family);
    const ranges = (): readonly Range[] => rangesOf(key, index, 'elements' in where ? [...where.elements.values()] : where, at);
    const others = 'elements' in where ? exactText(key.toSpliced(index, 1)) : null;
    const known = 'elements' in where && others !== null ? once(where, `${at.packet.family} ${index} ${others}`, ranges) : ranges();
    const own = intervalsOf(known.filter(range => found.kind === 'found' && range.value === found.value).map(toPair));
    const current = numberIn(value, at);
    const isNamed = current !== null && holds(own, current);
    ask(isNamed ? own : subtract(all, intervalsOf(known.map(toPair))));
  }
}

/** Where the values with the same answer are noted, if the value stands for others. */
function questionOf(value: PacketValue, {environment: {sender, drawnPort}}: PacketAt): ((alike: Intervals) => void) | null {
  if (value.kind === 'number' && value.isDrawn === true) return drawnPort ?? null;
  if (sender === undefined || !('isClient' in value) || value.isClient !== true) return null;
  return alike => sender.ask(value.kind === 'number' ? 'port' : 'address', alike);
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
function numberIn(value: PacketValue, at: PacketAt): bigint | null {
  if (value.kind === 'number') return BigInt(value.value);
  if (value.kind === 'address') return value.address.value;
  return value.kind === 'interface' ? at.packet[sideOf(value)].value : null;
}

function sideOf({side}: PacketValue & {readonly kind: 'interface'}): 'source' | 'destination' {
  return side === 'in' ? 'source' : 'destination';
}

/** A set may have a hundred thousand elements. `question` is what else the ranges depend on. */
function once(set: NftSet, question: string, make: () => readonly Range[]): readonly Range[] {
  const made = kept.get(set) ?? new Map<string, readonly Range[]>();
  kept.set(set, made);
  const known = made.get(question) ?? make();
  made.set(question, known);
  return known;
}

const kept = new WeakMap<NftSet, Map<string, readonly Range[]>>();

/** `th sport >= 1024`. */
function askComparison(value: PacketValue & {readonly kind: 'number'}, operator: NftOperator, right: NftExpression, at: PacketAt): void {
  const range = right.kind === 'value' ? numberRange(right.text) : null;
  const ask = questionOf(value, at);
  if (ask === null || range === null || !range.every(Number.isSafeInteger)) return;
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
  ask(holds(ports, BigInt(value.value)) ? ports : subtract(allPorts, ports));
}

/** The result of a lookup in a set or map for a packet. */
type ElementLookup = {readonly kind: 'found'; readonly value: string | null} | {readonly kind: 'absent'} | {readonly kind: 'unknown'};

const absent: ElementLookup = {kind: 'absent'};
const unknown: ElementLookup = {kind: 'unknown'};

/** Looks up a key in a named set or map, which may have many elements. The key is a concatenation, usually of one or three values. */
function lookUpSet(key: readonly PacketValue[], set: NftSet, at: PacketAt): ElementLookup {
  if (at.environment.knownTo.has(set.name)) return {kind: 'found', value: null};
  const text = exactText(key);
  const exact = text === null ? undefined : set.elements.get(text);
  if (exact !== undefined) return {kind: 'found', value: exact.value};
  const found =
    text !== null && !set.flags.includes('interval') && !set.elements.has('*') ? absent : lookUpList(key, set.elements.values(), at);
  return found.kind === 'absent' && !set.complete ? unknown : found;
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
