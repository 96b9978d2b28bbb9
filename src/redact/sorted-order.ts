import {compareText} from '../model/text/compare-text.ts';
/**
 * kube-proxy sorts endpoints by their text, and new addresses sort in another way: where the old ones stood sorted, gives for each
 * place the index of the new one that is to stand there. Null when all may stay as it is.
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
