import {join} from 'node:path';
import {describe, expect, test} from 'vitest';
import {commandSpecs} from '../../../src/cli/complete/command-spec.ts';
import {programHelp} from '../../../src/cli/help/show-help.ts';

type ProgramSpec = Parameters<typeof programHelp>[0];

const specs = (await commandSpecs(join(import.meta.dirname, '../../..'))) as ProgramSpec['commands'];
const description = 'Trace a Service.';
const helpAt = (width: number, commands: ProgramSpec['commands'] = specs): readonly string[] =>
  programHelp({description, commands}, {bin: 'kubectl svc-trace', width}).split('\n');

describe('the help of the program', () => {
  test('fits 80 columns and 24 rows with the prompt after it', () => {
    expect(helpAt(80).length).toBeLessThan(24);
    expect(helpAt(80).filter(line => line.length > 80)).toEqual([]);
  });

  test('shows examples before the commands', () => {
    const example = helpAt(80).indexOf('  kubectl svc-trace check -A       check all Services on all nodes');
    expect(example).toBeGreaterThan(0);
    expect(helpAt(80).findIndex(line => line.startsWith('Diagnose '))).toBeGreaterThan(example);
  });

  test('names every command of the program once, by its purpose', () => {
    const ids = specs.filter(({hidden}) => hidden !== true).map(({id}) => id);
    const [, , rows = ''] = helpAt(200).join('\n').split('\n\n');
    expect(
      rows
        .split('\n')
        .map(row => / +(\S+) +\S.*$/.exec(row.replace(/^\S.*? {2,}/, '  '))?.[1])
        .toSorted(),
    ).toEqual(ids.toSorted());
    expect(helpAt(80).filter(line => /^In the cluster +agent +\S/.test(line))).toHaveLength(1);
  });

  test('leaves out hidden commands, and breaks lines at the width', () => {
    const lines = helpAt(50, [
      {id: 'trace', summary: 'Trace it'},
      {id: 'check', summary: 'Check it on every node, with a summary of more than one line'},
      {id: 'agent', summary: 'Not for users', hidden: true},
    ]);
    const first = lines.findIndex(line => line.startsWith('Diagnose'));
    expect(lines.slice(first, first + 4)).toEqual([
      'Diagnose        check  Check it on every node,',
      '                       with a summary of more than',
      '                       one line',
      '                trace  Trace it',
    ]);
    expect(lines.join()).not.toContain('agent');
  });

  test('has lines of 100 columns at most on a wide terminal', () => {
    const [summary = ''] = programHelp({description: 'word '.repeat(60), commands: specs}, {bin: 'x', width: 300}).split('\n');
    expect(summary.length).toBeGreaterThan(90);
    expect(summary.length).toBeLessThanOrEqual(100);
  });
});
