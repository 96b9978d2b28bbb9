import {Errors} from '@oclif/core';
import {escapeText} from '../render/renderer.ts';

/** Wrong use of the command line (exit 2), with up to three suggestions. Nothing of it is escaped yet. */
export function wrongUse(message: string, suggestions: readonly string[] = []): Error {
  return cliError(2, message, suggestions);
}

/** What is needed could not be read (exit 3). Nothing of it is escaped yet. */
export function notRead(message: string, suggestions: readonly string[] = []): Error {
  return cliError(3, message, suggestions);
}

function cliError(exit: number, message: string, suggestions: readonly string[]): Error {
  const hints = suggestions.length === 0 ? {} : {suggestions: suggestions.slice(0, 3).map(escapeText)};
  return new Errors.CLIError(escapeText(message), {exit, ...hints});
}

/** The words closest to a mistyped one, best first, at an edit distance of at most a third of its length. */
export function closest(word: string, words: readonly string[]): readonly string[] {
  const unique = [...new Set(words)];
  const scored = unique.map(candidate => ({candidate, distance: editDistance(word, candidate)}));
  return scored
    .filter(({candidate, distance}) => distance <= Math.max(1, Math.ceil(candidate.length / 3)))
    .sort((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({candidate}) => candidate);
}

/** Levenshtein distance, with two swapped neighboring letters counted as one edit. */
function editDistance(a: string, b: string): number {
  const rows = [Array.from({length: b.length + 1}, (_, index) => index)];
  const at = (row: number, column: number): number => rows[row]?.[column] ?? 0;
  for (let i = 1; i <= a.length; i++) {
    rows[i] = [i];
    for (let j = 1; j <= b.length; j++) {
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? at(i - 2, j - 2) + 1 : Infinity;
      const changed = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      rows[i]?.push(Math.min(changed, swapped, at(i - 1, j) + 1, at(i, j - 1) + 1));
    }
  }
  return at(a.length, b.length);
}
