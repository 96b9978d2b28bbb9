import process from 'node:process';

/** How many cases of a random table are tried: a few in `npm test`, and all of them in `npm run test:long`. */
export function cases({usual, long}: {readonly usual: number; readonly long: number}): number {
  return process.env['SVC_TRACE_LONG'] === '1' ? long : usual;
}

/** Some rows of a table whose rows are alike, such as one for each capture: a third in `npm test`, and all of them in `npm run test:long`. */
export function someOf<Row>(rows: readonly Row[]): readonly Row[] {
  const step = cases({usual: 3, long: 1});
  return rows.filter((_, index) => index % step === 0);
}
