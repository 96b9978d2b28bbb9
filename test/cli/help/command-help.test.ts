import {join} from 'node:path';
import {describe, expect, test} from 'vitest';
import {commandHelp, type HelpSpec} from '../../../src/cli/help/show-help.ts';
import {commandSpecs} from '../../../src/cli/complete/command-spec.ts';

const specs = (await commandSpecs(join(import.meta.dirname, '../../..'))) as readonly HelpSpec[];
const textOf = (spec: HelpSpec, width = 80): string => commandHelp(spec, {bin: 'kubectl svc-trace', width});

describe.each(specs.map(spec => [spec.id, spec] as const))('the help of %s', (_, spec) => {
  const text = textOf(spec);
  const lines = text.split('\n');

  test('has one line of usage, before the examples and the flags', () => {
    const usage = lines.findIndex(line => /^Usage: kubectl svc-trace \w+.* \[flags\]$/.test(line));
    expect(lines.slice(usage + 1, usage + 3)).toEqual(['', 'Examples:']);
    expect(lines[usage - 1]).toBe('');
  });

  test('lists the flags of the connection last', () => {
    const titles = lines.filter(line => /^\S.*:$/.test(line) && !line.includes('  '));
    if (titles.includes('Connection, as for kubectl:')) expect(titles.at(-1)).toBe('Connection, as for kubectl:');
    else expect(Object.keys(spec.flags)).not.toContain('kubeconfig');
  });

  test('names every flag, and breaks no word', () => {
    for (const {name} of Object.values(spec.flags)) expect(text).toContain(name);
    const words = new Set(textOf(spec, Number.MAX_SAFE_INTEGER).split(/\s+/));
    expect(text.split(/\s+/).filter(word => !words.has(word))).toEqual([]);
  });
});
