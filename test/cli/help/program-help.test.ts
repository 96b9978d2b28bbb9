import {expect, test} from 'vitest';
import {programHelp} from '../../../src/cli/help/show-help.ts';

const description = 'Trace a Service.\nSERVICE is short for trace SERVICE.';
const commands = [
  {id: 'trace', summary: 'Trace it'},
  {id: 'check', summary: 'Check it on every node, with a summary of more than one line'},
  {id: 'internal', summary: 'Not for users', hidden: true},
];

test('the help of the program lists its commands by name, without hidden ones, and breaks lines at the width', () => {
  expect(programHelp({description, commands}, {bin: 'kubectl svc-trace', width: 50})).toBe(`Trace a Service.

Usage: kubectl svc-trace COMMAND [flags]

SERVICE is short for trace SERVICE.

Commands:
  check  Check it on every node, with a summary of
         more than one line
  trace  Trace it

Flags:
  -h, --help     show help; after a command, its
                 examples and flags
      --version  print the version`);
});

test('a wide terminal has lines of 100 columns at most', () => {
  const [summary = ''] = programHelp({description: 'word '.repeat(60), commands}, {bin: 'x', width: 300}).split('\n');
  expect(summary.length).toBeGreaterThan(90);
  expect(summary.length).toBeLessThanOrEqual(100);
});
