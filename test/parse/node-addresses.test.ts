import {expect, test} from 'vitest';
import {parseNodeAddresses} from '../../src/parse/ipvs/kube-ipvs0.ts';
import {readFixture} from '../fixtures.ts';

test('the output of ip -j addr gives each interface with its addresses and networks of both families', () => {
  const text = readFixture('captures/healthy/1.36-iptables/nodes/node-a/addresses.json').toString();
  expect(parseNodeAddresses(text)).toEqual([
    {name: 'lo', addresses: ['127.0.0.1', '::1'], networks: ['127.0.0.1/8', '::1/128']},
    {
      name: 'eth0',
      addresses: ['172.18.0.11', 'fe80::9c9f:6cff:feb2:e347'],
      networks: ['172.18.0.11/16', 'fe80::9c9f:6cff:feb2:e347/64'],
    },
  ]);
});

test('an interface without addresses has none', () => {
  expect(parseNodeAddresses('[{"ifname": "dummy0", "addr_info": []}, {"ifname": "wg0"}, {}]')).toEqual([
    {name: 'dummy0', addresses: [], networks: []},
    {name: 'wg0', addresses: [], networks: []},
    {name: '', addresses: [], networks: []},
  ]);
});

test('an entry without an address is skipped', () => {
  expect(parseNodeAddresses('[{"ifname": "eth0", "addr_info": [{"family": "inet"}, {"local": "10.0.0.1"}, null]}]')).toEqual([
    {name: 'eth0', addresses: ['10.0.0.1'], networks: []},
  ]);
});

test('an invalid list of interfaces is distinguished from an empty one', () => {
  expect(parseNodeAddresses('[]')).toEqual([]);
  for (const text of ['{}', 'null', 'Object "-j" is unknown']) expect(parseNodeAddresses(text)).toBeNull();
});
