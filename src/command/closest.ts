/** The words nearest to one that was mistyped, best first; none that differ in more than a third of their letters. */
export function closest(word: string, words: readonly string[]): readonly string[] {
  const unique = [...new Set(words)];
  const scored = unique.map(candidate => ({candidate, distance: editDistance(word, candidate)}));
  return scored
    .filter(({candidate, distance}) => distance <= Math.max(1, Math.ceil(candidate.length / 3)))
    .sort((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({candidate}) => candidate);
}

/** Levenshtein's distance. */
function editDistance(a: string, b: string): number {
  let row = Array.from({length: b.length + 1}, (_, index) => index);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...b].entries())
      next.push(Math.min((row[j] ?? 0) + (letter === other ? 0 : 1), (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    row = next;
  }
  return row[b.length] ?? 0;
}
