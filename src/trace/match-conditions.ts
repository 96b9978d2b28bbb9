import {intersect, type Intervals} from '../model/intervals.ts';
import type {NftListElement, NftOperator} from '../model/nft-ruleset.ts';
import {fieldValue, flagNames, numberRange, type PacketAt, type PacketValue} from './field-value.ts';
import {type ElementLookup, type Evaluation, lookUp, questionOf} from './look-up.ts';
import type {Condition, Elements, Expression} from './rule-language.ts';
import {alikePorts, allPorts} from './sender-space.ts';

/** How likely a rule matches: 0 is no, 1 is yes, a value between is random (`statistic`, `numgen`). Null means unknown. */
export type Likelihood = number | null;

/** Matches a packet against all conditions. One that certainly fails outweighs those that are unknown. */
export function matchConditions(conditions: readonly Condition[], at: Evaluation): Likelihood {
  if (at.environment.sender !== undefined) return matchNoting(conditions, at, at.environment.sender);
  let likelihood: Likelihood = 1;
  for (const condition of conditions) {
    likelihood = both(likelihood, matchCondition(condition, at));
    if (likelihood === 0) return 0;
  }
  return likelihood;
}

type Sender = NonNullable<PacketAt['environment']['sender']>;

/** The same, noting the conditions on the sender: the first that fails, or all if none does, and none if another condition fails. */
function matchNoting(conditions: readonly Condition[], at: Evaluation, sender: Sender): Likelihood {
  let likelihood: Likelihood = 1;
  let failed: readonly [from: number, to: number] | null = null;
  for (const condition of conditions) {
    const from = sender.stagedCount;
    const one = matchCondition(condition, at);
    if (sender.stage() && one === 0) failed ??= [from, sender.stagedCount];
    else likelihood = both(likelihood, one);
    if (likelihood === 0) {
      sender.discard();
      return 0;
    }
  }
  sender.commit(...(failed ?? []));
  return failed === null ? likelihood : 0;
}

function both(a: Likelihood, b: Likelihood): Likelihood {
  if (a === 0 || b === 0) return 0;
  return a === null || b === null ? null : a * b;
}

function negate(likelihood: Likelihood, negated: boolean): Likelihood {
  return !negated || likelihood === null ? likelihood : 1 - likelihood;
}

function truth(value: boolean | null): Likelihood {
  return value === null ? null : value ? 1 : 0;
}

function matchCondition(condition: Condition, at: Evaluation): Likelihood {
  switch (condition.kind) {
    case 'compare':
      return matchComparison(condition, at);
    case 'any': {
      const results = condition.of.map(one => matchCondition(one, at));
      return negate(results.includes(1) ? 1 : results.includes(null) ? null : 0, condition.not);
    }
    case 'ipset':
      return negate(truth(at.environment.inSet(condition.name, at.packet, condition.directions, at.environment)), condition.not);
    case 'recent':
      return truth(at.environment.knownTo.has(condition.list) !== condition.not);
    case 'bridge port':
      return negate(truth(arrivesByBridge(at, condition.name) === false ? false : null), condition.not);
    case 'chance':
      return condition.share;
    case 'unknown':
      return at.environment.belowLimit?.(condition.text) ?? null;
  }
}

type Comparison = Condition & {readonly kind: 'compare'};

function matchComparison({left, operator, right}: Comparison, at: Evaluation): Likelihood {
  if (left.kind === 'binary') return matchBinary(left, operator, right, at);
  const key = keyValues(left, at);
  if (key.some(({kind}) => kind === 'none')) return 0;
  const [value] = key;
  if (value?.kind === 'random') return matchRandom(value, operator, right);
  if (value?.kind === 'since') return matchDate(value, operator, right);
  if (value?.kind === 'between') return matchBetween(value, operator, right);
  if (operator !== '==' && operator !== '!=') {
    if (value?.kind !== 'number') return null;
    askComparison(value, operator, right, at);
    return compareNumbers(value.value, operator, right);
  }
  const {kind} = lookUp(key, right, at);
  return kind === 'unknown' ? null : Number((kind === 'found') === (operator === '=='));
}

/** Whether the packet arrived by the port of a bridge that has one of this name, and so can leave by one as a bridged one; null if unknown. */
function arrivesByBridge({packet: {origin, inInterface}, environment}: Evaluation, port: string | undefined): boolean | null {
  const arrives = origin === 'node' ? false : (environment.isBridge?.(inInterface) ?? null);
  if (arrives === true && port !== undefined && inInterface !== null && environment.isPortOf?.(port, inInterface) === false) return false;
  return arrives;
}

/** What holds for all numbers of a range alike. */
function matchBetween({low, high}: PacketValue & {readonly kind: 'between'}, operator: NftOperator, right: Elements): Likelihood {
  const all = compareNumbers(low, operator, right);
  const asked = right.kind === 'list' ? right.elements.map(({key}) => numberRange(key)) : [null];
  const isWhole =
    asked.every(range => range !== null && (range[1] < low || range[0] > high)) ||
    asked.some(range => range !== null && range[0] <= low && high <= range[1]);
  return isWhole || (operator !== '==' && operator !== '!=' && all === compareNumbers(high, operator, right)) ? all : null;
}

/** Dates as text are in their own order: `2024-12-31 23:00:00`. One that is past decides. */
function matchDate({date}: PacketValue & {readonly kind: 'since'}, operator: NftOperator, right: Elements): Likelihood {
  const last =
    onlyKey(right)
      ?.split(/(?<=^\S+(?: [\d:]+)?)-(?=\d{4}-)/)
      .at(-1) ?? '';
  if (!/^\d{4}-\d\d-\d\d/.test(last) || last >= date) return null;
  return Number(operator === '>' || operator === '>=' || operator === '!=');
}

/** The values of a field or of a concatenation. */
function keyValues(expression: Expression, at: Evaluation): readonly PacketValue[] {
  if (expression.kind === 'field') return [fieldValue(expression.field, at)];
  if (expression.kind === 'concat') return expression.parts.flatMap(part => keyValues(part, at));
  const value = numberOf(expression, at);
  return [value === null ? {kind: 'unknown'} : {kind: 'number', value}];
}

/** `meta mark & 0x4000 != 0`, `tcp flags & (syn|ack) == syn`, `meta random & 2147483647 < 1073741824`. */
function matchBinary(left: Expression & {readonly kind: 'binary'}, operator: NftOperator, right: Elements, at: Evaluation): Likelihood {
  const value = left.left.kind === 'field' ? fieldValue(left.left.field, at) : undefined;
  if (value?.kind === 'none') return 0;
  if (value?.kind === 'flags') return left.operator === '&' ? matchFlags(value, left.right, operator, right) : null;
  if (value?.kind === 'random') return matchMaskedRandom(left.right, operator, right);
  const number = numberOf(left, at);
  return number === null ? null : compareNumbers(number, operator, right);
}

function matchFlags(
  {flags, unsure}: PacketValue & {readonly kind: 'flags'},
  mask: Expression,
  operator: NftOperator,
  right: Elements,
): Likelihood {
  const masked = flagNames(constantText(mask));
  const key = onlyKey(right);
  if (key === null || masked.length === 0 || masked.some(flag => unsure.includes(flag))) return null;
  const wanted = flagNames(key).filter(flag => !/^0x0+$|^0$/.test(flag));
  const set = flags.filter(flag => masked.includes(flag));
  const equal = set.length === wanted.length && set.every(flag => wanted.includes(flag));
  return operator === '==' || operator === '!=' ? Number(equal === (operator === '==')) : null;
}

function constantText(expression: Expression): string {
  return expression.kind === 'constant' ? expression.text : '';
}

/** The one value that a field is compared with; null if there are several. */
function onlyKey(elements: Elements): string | null {
  const [only, ...others] = elements.kind === 'list' ? elements.elements : [];
  return only === undefined || others.length > 0 ? null : only.key;
}

function onlyRange(elements: Elements): readonly [low: number, high: number] | null {
  return numberRange(onlyKey(elements) ?? '');
}

function matchMaskedRandom(mask: Expression, operator: NftOperator, right: Elements): Likelihood {
  const count = Number(constantText(mask)) + 1;
  // Only with a mask of the lowest bits are all numbers equally likely.
  return Number.isInteger(Math.log2(count)) ? matchRandom({first: 0, count}, operator, right) : null;
}

function matchRandom(
  {first, count}: Pick<PacketValue & {readonly kind: 'random'}, 'first' | 'count'>,
  operator: NftOperator,
  right: Elements,
): Likelihood {
  const range = onlyRange(right);
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

function compareNumbers(value: number, operator: NftOperator, right: Elements): Likelihood {
  if (right.kind !== 'list') return null;
  const tests = right.elements.map(({key}) => numberRange(key));
  if (tests.includes(null)) return null;
  const inside = tests.some(range => range !== null && range[0] <= value && value <= range[1]);
  if (operator === '==' || operator === '!=') return Number(inside === (operator === '=='));
  const [range] = tests;
  if (range === undefined || range === null || tests.length > 1) return null;
  const [low, high] = range;
  return Number({'<': value < low, '<=': value <= low, '>': value > high, '>=': value >= low}[operator]);
}

/** The value of a numeric expression, such as a new mark; null if unknown. */
export function numberOf(expression: Expression, at: Evaluation): number | null {
  switch (expression.kind) {
    case 'constant':
      return numberRange(expression.text)?.[0] ?? null;
    case 'field': {
      const value = fieldValue(expression.field, at);
      return value.kind === 'number' ? value.value : null;
    }
    case 'map': {
      const found = choose(expression.key, expression.elements, at);
      if (found === null || found.choices.length !== 1 || found.rest !== 0) return null;
      return numberRange(found.choices[0]?.value ?? '')?.[0] ?? null;
    }
    case 'binary': {
      const [left, right] = [numberOf(expression.left, at), numberOf(expression.right, at)];
      return left === null || right === null ? null : calculate[expression.operator](left, right) >>> 0;
    }
    default:
      return null;
  }
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

const noChoice: Choices = {choices: [], rest: 1};

/** Looks a key up in a map. Null when the result is unknown; what a hash gives is drawn where it decides among addresses alone. */
export function choose(key: Expression, map: Elements, at: Evaluation, isAnyAlike = false): Choices | null {
  const values = keyValues(key, at);
  if (values.some(({kind}) => kind === 'none')) return noChoice;
  const [value] = values;
  if (value?.kind === 'random' || (isAnyAlike && value?.kind === 'hash')) return drawFrom(value, elementsIn(map, at));
  const found: ElementLookup = lookUp(values, map, at);
  if (found.kind === 'unknown') return null;
  return found.kind === 'found' && found.value !== null ? {choices: [{value: found.value, share: 1}], rest: 0} : noChoice;
}

/** All elements of a set or map. */
export function elementsIn(elements: Elements, table: Pick<Evaluation, 'set'>): readonly NftListElement[] {
  if (elements.kind === 'list') return elements.elements;
  return elements.kind === 'set' ? [...(table.set(elements.name)?.elements.values() ?? [])] : [];
}

function drawFrom({first, count}: PacketValue & {readonly kind: 'random' | 'hash'}, elements: readonly NftListElement[]): Choices {
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

/** `th sport >= 1024`. */
function askComparison(value: PacketValue & {readonly kind: 'number'}, operator: NftOperator, right: Elements, at: PacketAt): void {
  const range = onlyRange(right);
  const ask = questionOf(value, at);
  if (ask === null || range === null || !range.every(Number.isSafeInteger)) return;
  const [low, high] = [BigInt(range[0]), BigInt(range[1])];
  const inside: Intervals = operator === '<' || operator === '>=' ? [[0n, low - 1n]] : [[0n, high]];
  ask(alikePorts(intersect(inside, allPorts), value.value));
}
