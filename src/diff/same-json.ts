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
