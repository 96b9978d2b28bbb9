/** Adds the items at the end of the list. `push(...items)` puts them all on the stack, where those of a large cluster do not fit. */
export function append<T>(list: T[], items: Iterable<T>): void {
  for (const item of items) list.push(item);
}

/** Adds an item to the list that a map holds under a key. */
export function pushTo<K, T>(map: Map<K, T[]>, key: K, item: T): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [item]);
  else list.push(item);
}

/** Items of one key together, in the order in which the keys first come. */
export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): readonly (readonly T[])[] {
  return [...Map.groupBy(items, keyOf).values()];
}
