import {expect, test} from 'vitest';
import {measureTable} from '../bench/conntrack-table.ts';

test('a table of a million connections is counted in memory that its text, of 180 MB, would not fit into', async () => {
  const [small, big] = [await measureTable(100_000, 16), await measureTable(1_000_000, 16)];
  expect(big).toMatchObject({entries: 1_000_000, counted: 100_000});
  // What tells connections apart takes 8 bytes for each of the Service's.
  expect(big.megabytes - small.megabytes).toBeLessThan(25);
}, 60_000);
