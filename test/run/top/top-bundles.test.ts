import {expect, test} from 'vitest';
import {topOfBundles} from '../../../src/run/top/top-bundles.ts';
import {snapshotOf} from '../../fixtures.ts';

test.each([
  ['healthy/1.36-iptables', 'the bundle holds no counters; write it with: capture --counters'],
  [
    'ipvs/1.36',
    'the bundle holds no IPVS statistics; write it with: capture --counters; open connections: the bundle holds no TCP connections',
  ],
])('what a bundle without counters does not hold is named: %s', async (capture, reason) => {
  const {nodes} = topOfBundles({before: null, after: await snapshotOf(capture)}, {toolVersion: '0.0.0'});
  expect(nodes[0]?.reason).toContain(reason);
});
