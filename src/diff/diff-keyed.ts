/** Pairs two lists by key: each key once, in the order of its text, with the items of both sides. */
export function pairUp<T>(before: readonly T[], after: readonly T[], keyOf: (item: T) => string): readonly Pair<T>[] {
  const [a, b] = [before, after].map(items => new Map(items.map(item => [keyOf(item), item])));
  const keys = [...new Set([...(a?.keys() ?? []), ...(b?.keys() ?? [])])].sort();
  return keys.map(key => ({before: a?.get(key), after: b?.get(key)}));
}

interface Pair<T> {
  readonly before: T | undefined;
  readonly after: T | undefined;
}
