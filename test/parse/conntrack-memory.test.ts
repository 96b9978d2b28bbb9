import {expect, test} from 'vitest';
import {measureTable} from '../bench/conntrack-table.ts';

test('a million tracked connections are counted in a heap of 16 MB, and two million in no more memory', async () => {
  const [one, two] = [await measureTable(1_000_000, 16), await measureTable(2_000_000, 16)];
  expect(one).toMatchObject({entries: 1_000_000, counted: 100_000});
  // The identity of a connection takes 8 bytes for each of the Service's.
  expect(two.megabytes - one.megabytes).toBeLessThan(25);
});
