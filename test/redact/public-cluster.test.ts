import {expect, test} from 'vitest';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {seededRandom} from '../bench/random.ts';
import {minors, randomCluster} from '../random-cluster.ts';
import {withRules} from '../rendered-dump.ts';
import {findingCounts, redacted} from './redacted.ts';

/** The cluster with public addresses for its pods and nodes, and the rules that its kube-proxies should have written. */
function publicCluster(seed: number, minor: number): Snapshot {
  const random = seededRandom(seed);
  const {api, ...rest} = randomCluster(random, minor);
  const text = JSON.stringify(api)
    .replace(/"10\.244\.(\d+)\.(\d+)"/g, '"5.9.$1.$2"')
    .replace(/"fd00:10:244:/g, '"2a01:4f8:244:');
  return withRules({...rest, api: JSON.parse(text)}, random);
}

test.each(minors)('endpoints with public addresses are sorted again: kube-proxy 1.%i', minor => {
  for (const seed of [1, 2, 3]) {
    const snapshot = publicCluster(minor * 1000 + seed, minor);
    const found = findingCounts(redacted(snapshot, `key ${seed}`));
    expect({seed, found}).toEqual({seed, found: findingCounts(snapshot)});
  }
});

test('some of the sorted endpoints have new positions', () => {
  const snapshot = publicCluster(36_001, 36);
  const order = ({nodes}: Snapshot) =>
    [...(nodes[0]?.read('iptables-save')?.toString() ?? '').matchAll(/ -> (\S+)"/g)].map(([, endpoint]) => endpoint);
  const [before, after] = [order(snapshot), order(redacted(snapshot, 'key 1'))];
  expect(after).toHaveLength(before.length);
  expect(after).not.toEqual(before);
});
