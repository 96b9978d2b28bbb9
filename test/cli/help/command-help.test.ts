import {join} from 'node:path';
import {describe, expect, test} from 'vitest';
import {commandHelp} from '../../../src/cli/help/show-help.ts';
import {commandSpecs} from '../../../src/cli/complete/command-spec.ts';

type HelpSpec = Parameters<typeof commandHelp>[0];

const specs = (await commandSpecs(join(import.meta.dirname, '../../..'))) as readonly HelpSpec[];
const textOf = (spec: HelpSpec, width = 80, all = false): string => commandHelp(spec, {bin: 'kubectl svc-trace', width, all});

describe.each(specs.map(spec => [spec.id, spec] as const))('the help of %s', (_, spec) => {
  const text = textOf(spec);
  const lines = text.split('\n');

  test('has one line of usage, before the examples and the flags', () => {
    const usage = lines.findIndex(line => /^Usage: kubectl svc-trace \w+.* \[flags\]$/.test(line));
    expect(lines.slice(usage + 1, usage + 3)).toEqual(['', 'Examples:']);
    expect(lines[usage - 1]).toBe('');
  });

  test('lists the flags of the connection last', () => {
    const titles = textOf(spec, 80, true)
      .split('\n')
      .filter(line => /^\S.*:$/.test(line) && !line.includes('  '));
    if (titles.includes('Connection, as for kubectl:')) expect(titles.at(-1)).toBe('Connection, as for kubectl:');
    else expect(Object.keys(spec.flags)).not.toContain('kubeconfig');
  });

  test('has its examples within 24 rows', () => {
    expect(lines.indexOf('', lines.indexOf('Examples:'))).toBeLessThan(24);
  });

  test('describes every flag with --help=all', () => {
    const all = textOf(spec, 80, true).replaceAll(/\s+/g, ' ');
    const described = Object.values(spec.flags).filter(
      ({description = ''}) => description !== '' && all.includes(description.replaceAll('\n', ' ')),
    );
    expect(described.map(({name}) => name)).toEqual(Object.keys(spec.flags));
  });

  test('names every flag, and breaks no word', () => {
    for (const {name} of Object.values(spec.flags)) expect(text).toContain(name);
    const words = new Set(textOf(spec, Number.MAX_SAFE_INTEGER).split(/\s+/));
    expect(text.split(/\s+/).filter(word => !words.has(word))).toEqual([]);
  });
});

test('the help of check has fewer than 80 rows', () => {
  const check = specs.find(({id}) => id === 'check');
  if (check === undefined) throw new Error('no check');
  expect(textOf(check).split('\n').length).toBeLessThan(80);
  expect(textOf(check)).toMatch(/More flags, described by --help=all:[\s\S]*--ssh-user[\s\S]*--kubeconfig/);
  expect(textOf(check, 80, true)).toContain('user to log in as');
});
