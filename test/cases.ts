import process from 'node:process';

const isLong = process.env['SVC_TRACE_LONG'] === '1';

/** CI tries a part of what is alike, where a release tries all. */
export const triesSome = process.env['SVC_TRACE_SOME'] === '1';

/** How many cases of a random table are tried: a few in `npm test`, and all of them in `npm run test:long`. */
export function cases({usual, long}: {readonly usual: number; readonly long: number}): number {
  return isLong ? long : usual;
}

/**
 * Some rows of a table whose rows are alike, such as one for each capture: a seventh in `npm test`, all of them in `npm run test:long`, and a
 * third in that of CI.
 */
export function someOf<Row>(rows: readonly Row[]): readonly Row[] {
  if (!isLong) return rows.filter((_, index) => index % 7 === 0);
  return triesSome && rows.length > 1 ? rows.filter((_, index) => index % 3 === 1) : rows;
}

/** Every other file, and which half it is depends on the last digit of the commit; the first one without a commit. */
export function halfOf(files: readonly string[], commit: string): string[] {
  const turn = Number.parseInt(commit.at(-1) ?? '', 16) || 0;
  return files.toSorted().filter((_, index) => (index + turn) % 2 === 0);
}
