import {expect, test} from 'vitest';
import {sameJson} from '../../src/diff/diff-bundles.ts';

test.each([
  [null, null],
  [
    {a: 1, b: [{c: 'x'}, null]},
    {b: [{c: 'x'}, null], a: 1},
  ],
  [[], []],
])('%j equals %j', (a, b) => {
  expect(sameJson(a, b)).toBe(true);
});

test.each([
  [{a: 1}, {a: 1, b: 2}],
  [{a: undefined}, {b: undefined}],
  [{a: 1, b: 2}, {a: 1}],
  [
    [1, 2],
    [2, 1],
  ],
  [[1], [1, 2]],
  [[], {}],
  [{}, null],
  [undefined, {}],
  ['1', 1],
])('%j differs from %j', (a, b) => {
  expect(sameJson(a, b)).toBe(false);
  expect(sameJson(b, a)).toBe(false);
});
