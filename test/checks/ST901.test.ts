import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

const place = {code: 'ST901', severity: 'warning', node: 'node-b'};

test('a node of the API without files in the bundle is reported, and the others are checked', async () => {
  const given = await scenario();
  given.leaveOut('node-b');
  given.rules('node-c').delete('-A KUBE-SERVICES', '"shop/web:http cluster IP"');
  expect(given.newFindings().map(({code, node, message}) => ({code, node, message}))).toEqual([
    {code: 'ST201', node: 'node-c', message: expect.anything()},
    {code: 'ST901', node: 'node-b', message: containing('node-b was not checked: the bundle has no files of this node')},
  ]);
});

test('a node without a dump is reported with what is missing', async () => {
  const given = await scenario();
  for (const file of ['iptables-save', 'ip6tables-save']) given.file('node-b', file, null);
  expect(given.newFindings()).toEqual([{...place, message: containing('node-b was not checked: it has no iptables-save')}]);
});

test('an empty dump is not a flushed node: the command failed', async () => {
  const given = await scenario();
  for (const file of ['iptables-save', 'ip6tables-save']) given.file('node-b', file, '');
  expect(given.newFindings()).toEqual([{...place, message: containing('its iptables-save is empty')}]);
});

test('dumps that hold only errors are reported with the first one', async () => {
  const given = await scenario();
  for (const file of ['iptables-save', 'ip6tables-save']) given.file('node-b', file, 'iptables-save: not found\n');
  expect(given.newFindings()).toEqual([
    {...place, message: containing('its iptables-save holds no rules, and begins with: iptables-save: not found')},
  ]);
});

test('a node in nftables mode without a ruleset is reported with the mode and what says so', async () => {
  const given = await scenario();
  for (const file of ['iptables-save', 'ip6tables-save']) given.file('node-b', file, null);
  given.file('node-b', 'proxy-mode', 'nftables');
  const message = 'node-b was not checked: its mode is nftables (proxy-mode), and it has no nft.json';
  expect(given.newFindings()).toEqual([{...place, message}]);
  expect(given.findings().find(({code}) => code === 'ST901')?.remedy).toContain('add its files to the bundle');
});

test('an empty ruleset of nftables mode is not a flushed node: the command failed', async () => {
  const given = await scenario('nftables/1.36');
  given.file('node-a', 'nft.txt', null);
  given.file('node-a', 'nft.json', '');
  expect(given.newFindings()).toEqual([{...place, node: 'node-a', message: containing('its nft.json is empty')}]);
});

test('an unreadable settings file is a warning, and the node is checked with other settings', async () => {
  const given = await scenario();
  given.file('node-b', 'configz.json', '{"kubeproxy.config.k8s.io":');
  expect(given.newFindings()).toEqual([{...place, message: containing('configz.json cannot be read')}]);
});

test('in a bundle without the files of any node, each node is reported', async () => {
  const given = await scenario();
  for (const node of ['node-a', 'node-b', 'node-c']) given.leaveOut(node);
  expect(given.newFindings()).toEqual(
    ['node-a', 'node-b', 'node-c'].map(node => ({
      ...{...place, node},
      message: `${node} was not checked: the bundle has no files of this node`,
    })),
  );
});

test('nodes that were not requested are not missing', async () => {
  const given = await scenario();
  given.leaveOut('node-b');
  expect(given.newFindings({nodes: name => name === 'node-a'})).toEqual([]);
});
