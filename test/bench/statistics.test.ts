import {expect, test} from 'vitest';
import {growthExponent, median} from './statistics.ts';

test.each([
  [[3], 3],
  [[9, 1, 5], 5],
  [[4, 1, 3, 2], 2.5],
])('the median of %j is %d', (values, expected) => {
  expect(median(values)).toBe(expected);
});

test('the growth exponent leaves out what starting costs', () => {
  const small = {bytes: 10, seconds: 0.5 + 1};
  expect(growthExponent({bytes: 100, seconds: 0.5 + 10}, small, 0.5)).toBeCloseTo(1);
  expect(growthExponent({bytes: 100, seconds: 0.5 + 100}, small, 0.5)).toBeCloseTo(2);
});
