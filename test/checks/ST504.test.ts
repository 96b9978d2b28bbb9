import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, containing, scenario} from '../scenario.ts';

const place = {code: 'ST504', severity: 'warning', node: 'node-b', family: 'IPv4'};

test('a network in the rules that is not the configured one is one finding, not one for each Service', async () => {
  const given = await scenario();
  given.rules('node-b').replaceAll('-s 10.244.0.0/16', '-s 10.200.0.0/16');
  const found = given.newFindings({nodes: name => name === 'node-b'});
  expect(found).toEqual([{...place, message: containing('10.200.0.0/16', 'settings say clients in 10.244.0.0/16')}]);
});

test('a configured network that does not contain the node’s own pods is reported', async () => {
  const given = await scenario();
  given.nodeObject('node-b', node => ({...node, spec: {podCIDR: '10.99.2.0/24', podCIDRs: ['10.99.2.0/24']}}));
  expect(given.newFindings()).toEqual([
    {...place, message: containing('clusterCIDR 10.244.0.0/16 does not hold the pods of this node (10.99.2.0/24)')},
  ]);
});

test('one Service that detects pods by another network is a fault of that Service', async () => {
  const given = await scenario();
  given.rules('node-b').replace(['-A KUBE-SVC-', '"shop/web:http cluster IP"', 'KUBE-MARK-MASQ'], '10.244.0.0/16', '10.200.0.0/16');
  expect(given.newFindings().map(({code}) => code)).not.toContain('ST504');
});

test('a node whose pods are detected by their interface, as configured, stays silent', async () => {
  for (const name of ['settings/detect-bridge', 'settings/detect-interface-prefix', 'settings/detect-node-cidr'])
    expect(findingsOf(await snapshotOf(name)).filter(({node}) => node !== undefined)).toEqual([]);
});

test('a dump that is truncated before the rules that show it stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').cutAfter('-A KUBE-MARK-MASQ', '-j MARK');
  expect(given.newFindings().map(({code}) => code)).not.toContain('ST504');
});
