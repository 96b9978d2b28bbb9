import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {describe, expect, test} from 'vitest';
import {costs} from './cost-model.ts';
import {costTables} from './cost-tables.ts';
import {protobufSize} from './protobuf-size.ts';

describe('what it costs', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/dev/costs.md'), 'utf8');
  const tables = costTables({nodes: 5000, services: 5000, endpoints: 50});

  test.each(Object.entries(tables))('docs/dev/costs.md has the measured table of %s', (_, table) => {
    expect(page).toContain(table);
  });

  const sizes = {service: 1000, slice: 1200, endpoint: 300, gzip: 0.2, protobuf: 0.5, dump: 320, rules: 3};

  test('matches the formulas', () => {
    const all = costs({nodes: 10, services: 4, endpoints: 150}, sizes);
    // Two slices for each Service, of 75 endpoints.
    expect(all).toMatchObject({endpoints: 600, slices: 8, objects: 4 * 1000 + 8 * 1200 + 600 * 300, dump: 192_000, dumps: 1_920_000});
    expect(all.change).toBe(10 * (1200 + 75 * 300));
    expect(all.changeOfKubeProxies).toBe(all.change / 2);
    expect(all.start).toBe(10 * all.objects * 0.2);
  });
});

describe('the length of an object in protobuf', () => {
  test.each([
    ['a string has a tag and a length', 'abc', 5],
    ['a long one has a longer length', 'x'.repeat(200), 203],
    ['a list is the sum of its items', ['a', 'b'], 6],
    ['a message has a tag and a length', {name: 'abc'}, 7],
    ['numbers and booleans are short', {port: 80, ready: true}, 6],
    ['a missing field takes no bytes', {endpoints: null}, 2],
  ])('%s', (_, value, bytes) => expect(protobufSize(value)).toBe(bytes));

  test('an entry of a map is a separate message', () => {
    expect(protobufSize({labels: {app: 'web'}})).toBe(2 + (2 + 5 + 5));
  });
});
