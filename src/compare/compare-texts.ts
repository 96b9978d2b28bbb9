/** An item that is missing, unexpected or in another position. */
interface TextDifference<T> {
  readonly kind: 'missing' | 'extra' | 'duplicate' | 'reordered';
  readonly item: T;
}

/** Compares two ordered lists by the text of their items; equal items are paired in order. */
export function compareTexts<T>(expected: readonly T[], actual: readonly T[], textOf: (item: T) => string): readonly TextDifference<T>[] {
  const open = new Map<string, number>();
  for (const item of expected) open.set(textOf(item), (open.get(textOf(item)) ?? 0) + 1);
  const wanted = new Set(open.keys());
  const paired: T[] = [];
  const differences: TextDifference<T>[] = [];
  for (const item of actual) {
    const text = textOf(item);
    const left = open.get(text) ?? 0;
    if (left > 0) {
      open.set(text, left - 1);
      paired.push(item);
    } else differences.push({kind: wanted.has(text) ? 'duplicate' : 'extra', item});
  }
  const kept: T[] = [];
  for (const item of [...expected].reverse()) {
    const left = open.get(textOf(item)) ?? 0;
    if (left > 0) {
      open.set(textOf(item), left - 1);
      differences.push({kind: 'missing', item});
    } else kept.push(item);
  }
  kept.reverse();
  const moved = paired.filter((item, index) => textOf(item) !== textOf(kept[index] ?? item));
  return [...differences, ...moved.map(item => ({kind: 'reordered' as const, item}))];
}
