import {expect, test} from 'vitest';
import {halfOf} from './cases.ts';

const files = ['c', 'a', 'e', 'b', 'd'];

test('two commits whose last digits are an even and an odd one try all files between them, each once', () => {
  expect([...halfOf(files, '1f0'), ...halfOf(files, '2ab')].sort()).toEqual(['a', 'b', 'c', 'd', 'e']);
  expect(halfOf(files, '2ab')).toEqual(['b', 'd']);
});

test('a folder without commits tries the first half', () => {
  expect(halfOf(files, '')).toEqual(['a', 'c', 'e']);
});
