import {heldIn, once} from './once.ts';
/** Sorted, disjoint ranges of whole numbers: addresses of one family, or ports. */
export type Intervals = readonly (readonly [low: bigint, high: bigint])[];

/** In any order, overlapping or not. */
export function intervalsOf(ranges: Iterable<readonly [low: bigint, high: bigint]>): Intervals {
  const sorted = [...ranges].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const result: [bigint, bigint][] = [];
  for (const [low, high] of sorted) {
    const last = result.at(-1);
    if (last === undefined || low > last[1] + 1n) result.push([low, high]);
    else if (high > last[1]) last[1] = high;
  }
  return result;
}

export function intersect(a: Intervals, b: Intervals): Intervals {
  return madeOnce(intersections, a, b, intersectEach);
}

function intersectEach(a: Intervals, b: Intervals): Intervals {
  const result: [bigint, bigint][] = [];
  // Nearly all sets are one range, and the other side may have thousands.
  for (let i = 0, j = a[0] === undefined ? 0 : firstNotBelow(b, a[0][0]); i < a.length && j < b.length; ) {
    const [low, high] = a[i] ?? none;
    const [otherLow, otherHigh] = b[j] ?? none;
    const [from, to] = [low > otherLow ? low : otherLow, high < otherHigh ? high : otherHigh];
    if (from <= to) result.push([from, to]);
    if (high < otherHigh) i++;
    else j++;
  }
  return result;
}

const none = [1n, 0n] as const;

export function subtract(a: Intervals, b: Intervals): Intervals {
  if (b.length === 0) return a;
  const [only] = b;
  return only !== undefined && b.length === 1 ? subtractOne(a, only) : madeOnce(differences, a, b, subtractEach);
}

type Made = (a: Intervals) => WeakMap<Intervals, Intervals>;

/** A block list of thousands of ranges stands beside the same senders in each question about a Service port. */
function madeOnce(made: Made, a: Intervals, b: Intervals, make: (a: Intervals, b: Intervals) => Intervals): Intervals {
  if (a.length + b.length < manyRanges) return make(a, b);
  return heldIn(made(a), b, () => make(a, b));
}

const manyRanges = 1000;
const [intersections, differences]: [Made, Made] = [once(() => new WeakMap()), once(() => new WeakMap())];

/** Of thousands of ranges those beside it are copied as they are. */
function subtractOne(a: Intervals, [low, high]: Intervals[number]): Intervals {
  const from = firstNotBelow(a, low);
  let to = from;
  while ((a[to]?.[0] ?? high + 1n) <= high) to++;
  return a.slice(0, from).concat(subtractEach(a.slice(from, to), [[low, high]]), a.slice(to));
}

function subtractEach(a: Intervals, b: Intervals): Intervals {
  const result: [bigint, bigint][] = [];
  for (const [low, high] of a) {
    let from = low;
    for (let at = firstNotBelow(b, low); at < b.length; at++) {
      const [otherLow, otherHigh] = b[at] ?? none;
      if (otherLow > high) break;
      if (otherLow > from) result.push([from, otherLow - 1n]);
      from = otherHigh + 1n;
    }
    if (from <= high) result.push([from, high]);
  }
  return result;
}

export function holds(intervals: Intervals, value: bigint): boolean {
  return placeIn(intervals, value) !== null;
}

/** The index of the range that holds a number; null if none does. */
export function placeIn(intervals: Intervals, value: bigint): number | null {
  const index = firstNotBelow(intervals, value);
  return (intervals[index]?.[0] ?? value + 1n) <= value ? index : null;
}

/** How many numbers there are. */
export function sizeOf(intervals: Intervals): bigint {
  return intervals.reduce((sum, [low, high]) => sum + high - low + 1n, 0n);
}

/** The index of the first range that does not end below a value; every condition on senders asks, so that a call for each step would count. */
function firstNotBelow(intervals: Intervals, value: bigint): number {
  let [low, high] = [0, intervals.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((intervals[middle]?.[1] ?? 0n) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
