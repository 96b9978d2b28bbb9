import process from 'node:process';

const isLong = process.env['SVC_TRACE_LONG'] === '1';

/** CI tries a part of what is alike, where a release tries all. */
export const triesSome = process.env['SVC_TRACE_SOME'] === '1';

/** How many cases of a random table are tried: a few in `npm test`, all of them in `npm run test:long`, and half in that of CI. */
export function cases({usual, long}: {readonly usual: number; readonly long: number}): number {
  return !isLong ? usual : triesSome ? Math.ceil(long / 2) : long;
}

/**
 * Some rows of a table whose rows are alike, such as one for each capture: a third in `npm test`, all of them in `npm run test:long`, and
 * another third in that of CI.
 */
export function someOf<Row>(rows: readonly Row[]): readonly Row[] {
  if (isLong && !triesSome) return rows;
  const from = isLong && rows.length > 1 ? 1 : 0;
  return rows.filter((_, index) => index % 3 === from);
}
