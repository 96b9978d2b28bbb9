import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

const place = {code: 'ST306', severity: 'info', node: 'node-b', family: 'IPv4'};

test('a canary that is missing from a table is an info with the table', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const mangle = dump.toString().replace(':KUBE-PROXY-CANARY - [0:0]\n', '');
  given.file('node-b', 'iptables-save', mangle);
  expect(given.newFindings()).toEqual([
    {...place, message: containing('KUBE-PROXY-CANARY is missing from mangle: something flushed the table')},
  ]);
});

test('canaries that are missing from several tables are one finding', async () => {
  const given = await scenario();
  given.file('node-b', 'iptables-save', given.rules('node-b').toString().replaceAll(':KUBE-PROXY-CANARY - [0:0]\n', ''));
  expect(given.newFindings()).toEqual([{...place, message: containing('is missing from mangle, nat, filter')}]);
});

test('a table that was not dumped is not reported', async () => {
  const given = await scenario();
  given.rules('node-b').deleteTable('mangle');
  expect(given.newFindings()).toEqual([]);
});

test('a dump that is truncated before the chain is not reported', async () => {
  const given = await scenario();
  given.rules('node-b').cutAfter(':KUBE-MARK-MASQ - [0:0]');
  expect(given.newFindings().map(({code}) => code)).not.toContain('ST306');
});
