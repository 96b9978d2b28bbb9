import {expect, test} from 'vitest';
import {readJson} from '../../src/parse/attempt.ts';

test('lists within lists beyond what any program prints are no JSON', () => {
  const nested = (depth: number): string => `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`;
  expect(readJson(nested(63))).toBeTypeOf('object');
  expect(readJson(nested(64))).toBeUndefined();
});
