import {expect, test} from 'vitest';
import {growthExponent, median, medianRatio} from './statistics.ts';

test.each([
  [[3], 3],
  [[9, 1, 5], 5],
  [[4, 1, 3, 2], 2.5],
])('the median of %j is %d', (values, expected) => {
  expect(median(values)).toBe(expected);
});

test('the growth exponent leaves out the cost of starting', () => {
  const small = {bytes: 10, seconds: 0.5 + 1};
  expect(growthExponent({bytes: 100, seconds: 0.5 + 10}, small, 0.5)).toBeCloseTo(1);
  expect(growthExponent({bytes: 100, seconds: 0.5 + 100}, small, 0.5)).toBeCloseTo(2);
});

test('ratios are computed from pairs, so that a slow round does not count more', () => {
  const cost = (cpuSeconds: number) => ({cpuSeconds, wallSeconds: cpuSeconds, peakMebibytes: 10});
  expect(medianRatio([cost(3), cost(30), cost(6)], [cost(1), cost(10), cost(2)]).cpuSeconds).toBe(3);
});
