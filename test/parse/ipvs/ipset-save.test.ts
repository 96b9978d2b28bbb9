import {expect, test} from 'vitest';
import {memberText, parseIpsetSave} from '../../../src/parse/ipvs/ipset-save.ts';
import {readFixture} from '../../fixtures.ts';

test('the sets of a node in IPVS mode are read', () => {
  const {sets} = parseIpsetSave(readFixture('captures/faults/ipvs-leftovers/nodes/node-a/ipset-save').toString());
  expect(sets.get('KUBE-LOAD-BALANCER-SOURCE-CIDR')).toEqual({
    name: 'KUBE-LOAD-BALANCER-SOURCE-CIDR',
    type: 'hash:ip,port,net',
    parts: ['ip', 'port', 'net'],
    elements: [
      ['203.0.113.13', 'tcp:80', '198.51.100.0/24'],
      ['203.0.113.13', 'tcp:80', '203.0.113.0/28'],
    ],
    exceptions: [],
    lines: [2, 3],
  });
  expect(sets.get('KUBE-NODE-PORT-TCP')).toMatchObject({parts: ['port'], elements: expect.arrayContaining([['30080'], ['30094']])});
  expect(sets.get('KUBE-IPVS-IPS')?.parts).toEqual(['ip']);
});

test('options of an element are left out, and an empty set is a set', () => {
  const {sets} = parseIpsetSave('create a hash:net family inet timeout 300\nadd a 10.0.0.0/8 timeout 12 comment "x y"\ncreate b hash:ip\n');
  expect([...sets.values()]).toEqual([
    {name: 'a', type: 'hash:net', parts: ['net'], elements: [['10.0.0.0/8']], exceptions: [], lines: [2]},
    {name: 'b', type: 'hash:ip', parts: ['ip'], elements: [], exceptions: [], lines: []},
  ]);
});

test('other lines, and a set that is created again, are a fault', () => {
  expect(parseIpsetSave('')).toEqual({sets: new Map(), fault: null});
  expect(parseIpsetSave('ipset v7.17: Kernel error\nadd gone 10.0.0.1\n')).toEqual({
    sets: new Map(),
    fault: {line: 1, text: 'ipset v7.17: Kernel error', isRepeated: false},
  });
  const text = 'create a hash:ip\nadd a 10.0.0.1\n';
  expect(parseIpsetSave(text).fault).toBeNull();
  expect(parseIpsetSave(`${text}${text}`).fault).toEqual({line: 3, text: 'create a hash:ip', isRepeated: true});
});

test('a network that is excluded from a wider one is not an element', () => {
  const set = parseIpsetSave('create a hash:net\nadd a 10.0.0.0/8\nadd a 10.1.0.0/16 nomatch\n').sets.get('a');
  expect(set).toMatchObject({elements: [['10.0.0.0/8']], exceptions: [['10.1.0.0/16']], lines: [2]});
});

test.each([
  [['10.96.0.1', 'tcp:443'], '10.96.0.1,tcp:443'],
  [['203.0.113.13', 'tcp:80', '10.0.0.5/32'], '203.0.113.13,tcp:80,10.0.0.5'],
  [['fd00:0:0::1', 'udp:53', 'fd00::1/128'], 'fd00::1,udp:53,fd00::1'],
  [['203.0.113.13', 'tcp:80', '10.1.2.3/8'], '203.0.113.13,tcp:80,10.0.0.0/8'],
  [['30080'], '30080'],
])('the element %j reads %s in every spelling', (element, text) => {
  expect(memberText(element)).toBe(text);
});
