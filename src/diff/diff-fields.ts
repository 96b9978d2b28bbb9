import type {FieldChange} from '../model/findings/bundle-diff.ts';

export type ComparedFields = Readonly<Record<string, string | undefined>>;

/** The fields that differ, in the order in which they are first named. Empty text equals a missing field. */
export function diffFields(before: ComparedFields, after: ComparedFields): readonly FieldChange[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .map(field => ({field, before: before[field] || null, after: after[field] || null}))
    .filter(change => change.before !== change.after);
}

/** Pairs two lists by key: each key once, in the order of its text, with the items of both sides. */
export function pairByKey<T>(before: readonly T[], after: readonly T[], keyOf: (item: T) => string): readonly Pair<T>[] {
  const [a, b] = [before, after].map(items => new Map(items.map(item => [keyOf(item), item])));
  const keys = [...new Set([...(a?.keys() ?? []), ...(b?.keys() ?? [])])].sort();
  return keys.map(key => ({before: a?.get(key), after: b?.get(key)}));
}

interface Pair<T> {
  readonly before: T | undefined;
  readonly after: T | undefined;
}

/** Whether two JSON values are equal, whatever the order of their keys. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [one, other] = [a as Fields, b as Fields];
  // Creates no list of keys: a large cluster has millions of these objects.
  let keys = 0;
  for (const key in one) {
    if (!Object.hasOwn(other, key) || !sameJson(one[key], other[key])) return false;
    keys++;
  }
  for (const _ in other) keys--;
  return keys === 0;
}

type Fields = Readonly<Record<string, unknown>>;
