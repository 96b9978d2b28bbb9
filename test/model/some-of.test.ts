import {expect, test} from 'vitest';
import {someOf} from '../../src/model/text.ts';

test.each([
  [[], ''],
  [['a'], 'a'],
  [['a', 'b', 'c'], 'a, b, c'],
  [['a', 'b', 'c', 'd'], 'a, b, c and 1 more Service'],
  [['a', 'b', 'c', 'd', 'e'], 'a, b, c and 2 more Services'],
])('at most three of %j are listed, and the number of the others has the right noun', (names, text) => {
  expect(someOf(names, {max: 3, noun: 'Service'})).toBe(text);
});

test('without a noun only the number of the others follows, after five names', () => {
  expect(someOf(['a', 'b', 'c', 'd', 'e'])).toBe('a, b, c, d, e');
  expect(someOf(['a', 'b', 'c', 'd', 'e', 'f'])).toBe('a, b, c, d, e and 1 more');
});
