import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {containing, scenario} from '../scenario.ts';

const place = {code: 'ST902', severity: 'warning', node: 'node-b'};

test('a family with Services that was not dumped is reported, and nothing else is', async () => {
  const given = await scenario();
  given.file('node-b', 'ip6tables-save', null);
  expect(given.newFindings()).toEqual([
    {...place, family: 'IPv6', message: containing('IPv6 was not checked on node-b: there is no ip6tables-save of it')},
  ]);
});

test('a family whose dump could not be read is reported with the reason', async () => {
  const given = await scenario();
  given.file('node-b', 'ip6tables-save', null);
  const {nodes, ...rest} = given.snapshot();
  const missing = [{file: 'ip6tables-save', reason: 'it has 2500 MiB'}];
  const {findings} = diagnose({...rest, nodes: nodes.map(node => (node.name === 'node-b' ? {...node, missing} : node))}, {toolVersion: ''});
  const message = containing('IPv6 was not checked on node-b: its ip6tables-save was not read: it has 2500 MiB');
  expect(findings).toContainEqual(expect.objectContaining({...place, message}));
});

test('an iptables-save that printed only an error is reported with the error', async () => {
  const given = await scenario();
  given.file('node-b', 'iptables-save', "iptables-save v1.8.2 (nf_tables): table `nat' is incompatible, use 'nft' tool.\n\n");
  expect(given.newFindings()).toEqual([
    {...place, family: 'IPv4', message: containing('its iptables-save holds no rules, and begins with:', "use 'nft' tool.")},
  ]);
});

test('an empty iptables-save is reported as empty', async () => {
  const given = await scenario();
  given.file('node-b', 'iptables-save', '\n');
  expect(given.newFindings()).toEqual([{...place, family: 'IPv4', message: containing('its iptables-save is empty')}]);
});

test('a dump without a table of Services is reported with the table, and nothing of it is reported as missing', async () => {
  const given = await scenario();
  given.rules('node-b').deleteTable('nat');
  expect(given.newFindings()).toEqual([{...place, family: 'IPv4', message: containing('the dump holds no table nat')}]);
});

test('a dump of one table, as many paste it, is reported for the others', async () => {
  const given = await scenario();
  given.rules('node-b').deleteTable('filter');
  given.rules('node-b').deleteTable('mangle');
  expect(given.newFindings()).toEqual([{...place, family: 'IPv4', message: containing('the dump holds no table filter')}]);
});

test('a table that iptables cannot show, because nft wrote into it, is told as that', async () => {
  const given = await scenario();
  given.rules('node-b').deleteTable('nat');
  const shown = given.rules('node-b').toString();
  given.file('node-b', 'iptables-save', `${shown}# Table \`nat' is incompatible, use 'nft' tool.\n`);
  expect(given.newFindings()).toEqual([{...place, family: 'IPv4', message: containing('into which another program wrote rules with nft')}]);
});

test('the family that was read is still checked', async () => {
  const given = await scenario();
  given.file('node-b', 'ip6tables-save', null);
  given.rules('node-b').delete('-A KUBE-SERVICES', '"shop/web:http cluster IP"');
  expect(given.newFindings().map(({code}) => code)).toContain('ST201');
});

test('a family without any Service is not reported', async () => {
  const given = await scenario();
  given.api(({services}) => ({services: (services ?? []).filter(({spec}) => !spec?.ipFamilies?.includes('IPv6'))}));
  for (const node of ['node-a', 'node-b', 'node-c']) given.file(node, 'ip6tables-save', null);
  given.leaveOut('node-a');
  given.leaveOut('node-c');
  expect(given.summaries({nodes: name => name === 'node-b'}).map(({code}) => code)).not.toContain('ST902');
});

test('other tables that are missing, such as mangle, stay silent', async () => {
  const given = await scenario();
  given.rules('node-b').deleteTable('mangle');
  expect(given.newFindings()).toEqual([]);
});
