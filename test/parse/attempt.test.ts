import {expect, test} from 'vitest';
import {parseJson, readJson} from '../../src/parse/attempt.ts';

test('lists within lists beyond what any program prints are no JSON', () => {
  const nested = (depth: number): string => `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`;
  expect(readJson(nested(63))).toBeTypeOf('object');
  expect(readJson(nested(64))).toBeUndefined();
});

test.each([
  ['lists', () => '['.repeat(6_000_000)],
  ['empty objects', () => `[${'{},'.repeat(2_000_000)}{}]`],
  ['lists apart', () => '[ '.repeat(3_000_000)],
  ['objects within objects', () => '{"a":'.repeat(1_000_000)],
])('a long text of %s is refused before it fills the memory', (_, text) => {
  expect(() => parseJson(text())).toThrow(/^it (?:has lists within lists, more than any program prints|consists of brackets)$/);
});

test('a long list as programs print it is read', () => {
  const addresses = Array.from({length: 120_000}, (_, index) => ({ifindex: index, flags: ['UP'], addr_info: [{local: '10.0.0.1'}]}));
  const text = JSON.stringify(addresses);
  expect(text.length).toBeGreaterThan(4 << 20);
  expect(readJson(text)).toHaveLength(120_000);
});
