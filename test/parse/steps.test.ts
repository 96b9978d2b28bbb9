import {execFileSync} from 'node:child_process';
import {join} from 'node:path';
import process from 'node:process';
import {expect, test} from 'vitest';

const flags = ['--no-opt', '--no-maglev', '--no-sparkplug', '--no-flush-bytecode', '--no-lazy-feedback-allocation'];

test('twice the text takes at most 2.2 times the steps, of whatever kind it is', () => {
  const printed = execFileSync(process.execPath, [...flags, join(import.meta.dirname, 'count-steps.ts')], {encoding: 'utf8'});
  const steps = Object.entries(JSON.parse(printed) as Record<string, readonly [number, number, number]>);
  const growth = steps.map(([kind, [once, twice, four]]) => ({kind, steps: once, growth: [twice / once, four / twice]}));
  expect(growth.length).toBeGreaterThan(12);
  expect(growth.filter(({steps: counted}) => counted < 300)).toEqual([]);
  expect(growth.filter(({growth: factors}) => factors.some(factor => factor > 2.2))).toEqual([]);
});
