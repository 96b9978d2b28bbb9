import {compareText} from '../model/text/compare-text.ts';
/**
 * kube-proxy sorts endpoints by their text, and replaced addresses sort differently. If the old ones were sorted, gives for each position
 * the index of the new one that belongs there. Null if no order has to change.
 */
export function sortedOrder(before: readonly string[], after: readonly string[]): readonly number[] | null {
  if (!isSorted(before) || isSorted(after)) return null;
  return after
    .map((text, index) => ({text, index}))
    .sort((a, b) => compareText(a.text, b.text))
    .map(({index}) => index);
}

function isSorted(texts: readonly string[]): boolean {
  return texts.every((text, index) => index === 0 || compareText(texts[index - 1] ?? '', text) <= 0);
}
