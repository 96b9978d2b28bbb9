import {plural} from './plural.ts';

interface SomeOptions {
  /** How many names are listed. */
  readonly max?: number;
  /** What the others are, in the singular; without it only their number is told. */
  readonly noun?: string;
}

/** A list of names for a sentence: the first ones and the number of the others, as in `a, b and 1 more Service`. */
export function someOf(names: readonly string[], {max = 5, noun}: SomeOptions = {}): string {
  const rest = names.length - max;
  if (rest <= 0) return names.join(', ');
  return `${names.slice(0, max).join(', ')} and ${noun === undefined ? `${rest} more` : plural(rest, `more ${noun}`)}`;
}
