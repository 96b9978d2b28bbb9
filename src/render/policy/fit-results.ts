import {type PolicyOutcome, outcomes, ownResult, type PolicyResult} from './policy-result.ts';

interface FittedResults {
  /** The most severe first. */
  readonly results: readonly PolicyResult[];
  /** Of all results, including those left out. */
  readonly summary: Readonly<Record<PolicyOutcome, number>>;
}

/**
 * As many results as one object can contain: etcd's default limit is 1.5 MiB, including the object's other fields. The most severe come
 * first, and one more result tells what is left out.
 */
export function fitResults(all: readonly PolicyResult[], max: number = maxBytes): FittedResults {
  const sorted = all.toSorted((a, b) => outcomes.indexOf(a.result) - outcomes.indexOf(b.result));
  const fitting = countFitting(sorted, max);
  const hidden = sorted.slice(fitting);
  const results = hidden.length === 0 ? sorted : [leftOut(hidden), ...sorted.slice(0, fitting)];
  return {results, summary: countOutcomes(hidden.length === 0 ? sorted : [leftOut(hidden), ...sorted])};
}

/** In JSON, the form in which the API server stores it. */
const maxBytes = 1_300_000;

function countFitting(results: readonly PolicyResult[], max: number): number {
  let bytes = 0;
  const first = results.findIndex(result => {
    bytes += Buffer.byteLength(JSON.stringify(result)) + timestampBytes;
    return bytes > max;
  });
  return first < 0 ? results.length : first;
}

/** It is put in later. */
const timestampBytes = '"timestamp":{"seconds":1700000000,"nanos":0},'.length;

function leftOut(hidden: readonly PolicyResult[]): PolicyResult {
  const counts = Object.entries(countOutcomes(hidden)).filter(([, number]) => number > 0);
  const list = counts.map(([outcome, number]) => `${number} ${outcome}`).join(', ');
  const isHarmless = hidden.every(({result}) => result === 'pass' || result === 'skip');
  return ownResult(
    'results-left-out',
    isHarmless ? 'skip' : 'warn',
    `there is no room here for ${hidden.length} results (${list}); the summary counts them, and check -o json shows them`,
  );
}

function countOutcomes(results: readonly PolicyResult[]): Readonly<Record<PolicyOutcome, number>> {
  const summary = {pass: 0, fail: 0, warn: 0, error: 0, skip: 0};
  for (const {result} of results) summary[result]++;
  return summary;
}
