import {expect, test} from 'vitest';
import {parseIpsetSave} from '../../src/parse/ipset-save.ts';
import {readFixture} from '../fixtures.ts';

test('the sets of a node in IPVS mode are read', () => {
  const sets = parseIpsetSave(readFixture('captures/faults/ipvs-leftovers/nodes/node-a/ipset-save').toString());
  expect(sets.get('KUBE-LOAD-BALANCER-SOURCE-CIDR')).toEqual({
    name: 'KUBE-LOAD-BALANCER-SOURCE-CIDR',
    parts: ['ip', 'port', 'net'],
    elements: [
      ['203.0.113.13', 'tcp:80', '198.51.100.0/24'],
      ['203.0.113.13', 'tcp:80', '203.0.113.0/28'],
    ],
  });
  expect(sets.get('KUBE-NODE-PORT-TCP')).toMatchObject({parts: ['port'], elements: expect.arrayContaining([['30080'], ['30094']])});
  expect(sets.get('KUBE-IPVS-IPS')?.parts).toEqual(['ip']);
});

test('options of an element are left out, and an empty set is a set', () => {
  const sets = parseIpsetSave('create a hash:net family inet timeout 300\nadd a 10.0.0.0/8 timeout 12 comment "x y"\ncreate b hash:ip\n');
  expect([...sets.values()]).toEqual([
    {name: 'a', parts: ['net'], elements: [['10.0.0.0/8']]},
    {name: 'b', parts: ['ip'], elements: []},
  ]);
});

test('other lines change nothing', () => {
  expect(parseIpsetSave('').size).toBe(0);
  expect(parseIpsetSave('ipset v7.17: Kernel error\nadd gone 10.0.0.1\n').size).toBe(0);
});
