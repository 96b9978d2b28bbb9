/** Appends the items to the list. `push(...items)` would put them all on the stack, which the items of a large cluster would overflow. */
export function append<T>(list: T[], items: Iterable<T>): void {
  for (const item of items) list.push(item);
}

/** The largest of the numbers, or -Infinity. `Math.max(...numbers)` would put them all on the stack, too. */
export function largest(numbers: Iterable<number>): number {
  let most = Number.NEGATIVE_INFINITY;
  for (const number of numbers) most = Math.max(most, number);
  return most;
}

/** Appends an item to the list that a map contains for a key. */
export function pushTo<K, T>(map: Map<K, T[]>, key: K, item: T): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [item]);
  else list.push(item);
}

/** A table of what is said of many words alike: each row has its words, and what holds for each of them. */
export function byWord<T>(...rows: readonly (readonly [words: string, value: T])[]): Readonly<Record<string, T>> {
  return Object.fromEntries(rows.flatMap(([words, value]) => words.split(' ').map(word => [word, value])));
}

/** Those for which it holds, and the others. */
export function partition<T>(items: readonly T[], holds: (item: T) => boolean): readonly [readonly T[], readonly T[]] {
  return [items.filter(holds), items.filter(item => !holds(item))];
}

/** Groups items by key, in the order of the first item of each key. */
export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): readonly (readonly T[])[] {
  return [...Map.groupBy(items, keyOf).values()];
}

/** One item for each key, at the place of the first: the last one. */
export function uniqueBy<T>(items: readonly T[], keyOf: (item: T) => unknown): readonly T[] {
  return [...new Map(items.map(item => [keyOf(item), item])).values()];
}

/** The one that most of them are, the first of equally many; undefined without any. */
export function mostCommon<T>(items: readonly T[]): T | undefined {
  const groups = [...Map.groupBy(items, item => JSON.stringify(item)).values()];
  return groups.toSorted((a, b) => b.length - a.length)[0]?.[0];
}

/** How many places of a sorted list, from its first on, something holds for: it holds for none behind one that it does not hold for. */
export function countFirst(length: number, holds: (index: number) => boolean): number {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
