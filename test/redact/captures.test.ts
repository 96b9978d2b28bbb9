import {describe, expect, test} from 'vitest';
import {endpointChainName} from '../../src/expect/iptables/chain-names.ts';
import type {ApiObjects, Snapshot} from '../../src/model/snapshot.ts';
import {Redaction} from '../../src/redact/redaction.ts';
import {type CaptureGroup, captureNames, snapshotOf} from '../fixtures.ts';
import {findingCounts, redacted} from './redacted.ts';
import {someOf} from '../cases.ts';

const groups: readonly CaptureGroup[] = ['healthy', 'settings', 'eras', 'faults', 'ipvs', 'nftables'];
const captures = captureNames(...groups);

describe('a redacted bundle gives the same findings', () => {
  test.each(someOf(captures))('%s', async name => {
    const snapshot = await snapshotOf(name);
    expect(findingCounts(redacted(snapshot))).toEqual(findingCounts(snapshot));
  });
});

describe('whatever the key', () => {
  test.each(someOf(captureNames('nftables')))('%s', async name => {
    const snapshot = await snapshotOf(name);
    const plain = findingCounts(snapshot);
    for (const key of ['a', 'b', 'c', 'd', 'e']) expect(findingCounts(redacted(snapshot, key)), key).toEqual(plain);
  });
});

/** Names that every cluster has, and words that are also in rules of iptables or comments of kube-proxy. Names that ports have too are left out below: those stay. */
const common = new Set(['default', 'kube-system', 'kubernetes', 'kube-dns', 'kube-proxy', 'sctp', 'nodeport']);

function namesIn(api: ApiObjects): readonly string[] {
  const lists = [api.services, api.endpointSlices, api.endpoints, api.nodes, api.pods, api.configMaps];
  const objects = lists.flatMap(list => list ?? []).map(({metadata}) => metadata);
  const ports = new Set((api.services ?? []).flatMap(({spec}) => spec?.ports ?? []).map(({name}) => name));
  const zones = (api.nodes ?? []).flatMap(({metadata}) => metadata.labels?.['topology.kubernetes.io/zone'] ?? []);
  const all = new Set([...objects.flatMap(({name, namespace}) => [name, namespace ?? '']), ...zones]);
  return [...all].filter(name => name !== '' && !common.has(name) && !ports.has(name));
}

/** Those of the names that are in a text as whole words: `web` is not in `web-1` nor in `webhook`. Keys of Kubernetes' labels do not count. */
function found(names: readonly string[], text: string): readonly string[] {
  const words = new Set(text.replace(/kubernetes\.io\/[a-z-]+/g, '').split(/[^a-zA-Z0-9-]+/));
  return names.filter(name => words.has(name));
}

/** The networks of the captures that are not private. */
const publicAddress = /(?<![\d.])(?:203\.0\.113|198\.51\.100|192\.0\.2)\.\d+|2001:db8:[\da-f:]*/gi;

function* filesOf({api, nodes}: Snapshot): Iterable<readonly [string, string]> {
  for (const [list, items] of Object.entries(api)) yield [list, JSON.stringify(items ?? [])];
  for (const node of nodes) {
    yield ['name of the node', node.name];
    for (const file of node.files) yield [`${node.name}/${file}`, node.read(file)?.toString('latin1') ?? ''];
  }
}

describe('no original name is in a redacted bundle', () => {
  test.each(someOf(captures))('%s', async name => {
    const snapshot = await snapshotOf(name);
    const names = namesIn(snapshot.api);
    expect(names.length).toBeGreaterThan(50);
    for (const [file, text] of filesOf(redacted(snapshot))) {
      expect([file, ...found(names, text), ...(text.match(publicAddress) ?? [])]).toEqual([file]);
    }
  });

  test('which the original contains', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const text = [...filesOf(snapshot)].map(([, content]) => content).join('\n');
    expect(found(['web', 'shop', 'node-a', 'web-1'], text)).toHaveLength(4);
    expect(text.match(publicAddress)).not.toEqual(null);
  });
});

describe('replacements', () => {
  const all = (snapshot: Snapshot) => Object.fromEntries(filesOf(snapshot));

  test('are the same for the same key, whatever the order of nodes', async () => {
    const snapshot = await snapshotOf('faults/split-brain');
    const backwards = redacted({...snapshot, nodes: snapshot.nodes.toReversed()});
    expect(all(backwards)).toEqual(all(redacted(snapshot)));
  });

  test('differ for another key', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const [a, b] = [redacted(snapshot, 'one'), redacted(snapshot, 'two')];
    expect(a.nodes.map(({name}) => name)).not.toEqual(b.nodes.map(({name}) => name));
    expect(findingCounts(b)).toEqual(findingCounts(a));
  });
});

test('replacements are counted, and files that were left out are named', async () => {
  const snapshot = await snapshotOf('nftables/1.36');
  const redaction = new Redaction('key');
  redaction.objects(snapshot.api);
  for (const node of snapshot.nodes) for (const file of node.files) redaction.node(node).read(file);
  const [first] = snapshot.nodes;
  if (first !== undefined) redaction.node({...first, read: () => Buffer.from('words')}).read('words');
  const {names, leftOut, addresses, hardwareAddresses} = redaction.summary();
  expect(Object.fromEntries(names)).toMatchObject({node: 3, namespace: 2});
  expect(leftOut).toEqual(['words']);
  expect(addresses).toBeGreaterThan(5);
  expect(hardwareAddresses).toBe(3);
});

test('the names of chains are those that kube-proxy would derive from the new names', async () => {
  const snapshot = await snapshotOf('healthy/1.36-iptables');
  const {nodes} = redacted(snapshot);
  const dump = nodes[0]?.read('iptables-save')?.toString() ?? '';
  const pairs = [...dump.matchAll(/^-A (KUBE-SEP-\S+) -p (\w+) -m comment --comment "?([^"\s]+)"? .*--to-destination (\S+)$/gm)];
  expect(pairs.length).toBeGreaterThan(20);
  for (const [, chain, protocol = '', port = '', target = ''] of pairs) expect(chain).toBe(endpointChainName(port, protocol, target));
});
