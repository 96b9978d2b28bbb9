import {expect, test} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import {askNodes} from '../../../src/run/packet/packet-flags.ts';
import {containing, type Scenario, scenario} from '../../scenario.ts';

/** What nft 1.0.2 prints of maps to chains, in text and in JSON, and 0.9.3 of networks. */
const inText = (dump: string): string =>
  dump.replaceAll(/numgen random mod (\d) vmap \{ .* \}/g, 'numgen random mod $1 map { 0 : 0x0 [invalid type] }');
const inJson = (dump: string): string =>
  dump
    .replace('"version": "1.0.6"', '"version": "1.0.2"')
    .replaceAll(
      /\{"vmap": (\{"key": \{"numgen": [^}]*\}\}, "data": )\{"set": \[\[0, .*?\]\]\}\}\}/g,
      '{"map": $1{"set": [[0, "0x0 [invalid type]"]]}}}',
    );
const asBytes = (dump: string): string => dump.replaceAll('ip saddr != 10.244.0.0/16', '@nh,96,16 != 0xaf4');

/** Node-a with one of its two dumps changed, and without the other. */
async function printed(kind: 'nft.txt' | 'nft.json', change: (dump: string) => string): Promise<Scenario> {
  const given = await scenario('nftables/1.36');
  const changed = change(given.rules('node-a', kind).toString());
  expect(changed).not.toBe(given.rules('node-a', kind).toString());
  given.file('node-a', kind, changed);
  given.file('node-a', kind === 'nft.txt' ? 'nft.json' : 'nft.txt', null);
  return given;
}

test.each([
  ['chains in maps', 'nft.txt', inText, '[invalid type]', ''],
  ['chains in maps in JSON', 'nft.json', inJson, '[invalid type]', ' (it is 1.0.2)'],
  ['networks', 'nft.txt', asBytes, '@nh,96,16', ''],
] as const)('%s that nft cannot print leave the node unread', async (_, kind, change, text, version) => {
  const given = await printed(kind, change);
  const message = `rules of kube-proxy read as "${text}": the nft that read these rules is older than the one that wrote them${version}`;
  expect(given.newFindings()).toEqual([
    {code: 'ST506', severity: 'warning', node: 'node-a', message, actual: expect.arrayContaining([containing(text)])},
  ]);
});

test('of two dumps, the one that is printed as it is is used', async () => {
  const given = await scenario('nftables/1.36');
  given.file('node-a', 'nft-ruleset.json', inJson(given.rules('node-a', 'nft.json').toString()));
  expect(given.newFindings()).toEqual([]);
});

test('bytes in a table of another program are no sign', async () => {
  const given = await printed('nft.txt', dump => `${dump}table ip other {\n\tchain own {\n\t\t@nh,96,16 0xaf4 accept\n\t}\n}\n`);
  expect(given.newFindings()).toEqual([]);
});

test('a packet has no outcome in rules that nft cannot print', async () => {
  const given = await printed('nft.txt', inText);
  const flags = {source: '10.244.11.4', destination: '10.96.1.10', port: '80'};
  const [answer] = askNodes(flags, given.snapshot(), name => name === 'node-a');
  expect(answer?.outcomes).toMatchObject([
    {verdict: 'undecided', reason: containing('the dump was made by an nft older', '[invalid type]')},
  ]);
});

test('a crash of nft is named with the versions that crash', async () => {
  const given = await scenario('nftables/1.36');
  for (const file of ['nft.json', 'nft.txt']) given.file('node-a', file, null);
  const {nodes, ...rest} = given.snapshot();
  const crashed = nodes.map(node => ({...node, read: node.read, missing: [{file: 'nft.json', reason: 'nft ended with exit code 139'}]}));
  expect(diagnose({...rest, nodes: crashed}, {toolVersion: '0.0.0'}).nodes[0]).toMatchObject({
    status: 'unread',
    reason: containing('it has no nft.json: nft ended with exit code 139. nft 0.9.8 crashes', '1.0.2 to 1.0.9'),
  });
});
