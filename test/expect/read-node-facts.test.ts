import {expect, test} from 'vitest';
import {nodeFacts, readNodeFacts} from '../../src/expect/read-node-facts.ts';
import {hostIP} from '../../src/model/node/node-facts.ts';
import type {NodeObject} from '../../src/model/api-objects.ts';
import {apiObjects, nodeDump} from '../cluster.ts';
import {snapshotOf} from '../fixtures.ts';

const node: NodeObject = {
  metadata: {name: 'node-a', labels: {'topology.kubernetes.io/zone': 'zone-1'}},
  spec: {podCIDR: '10.244.1.0/24', podCIDRs: ['10.244.1.0/24', 'fd00:10:1::/64']},
  status: {
    addresses: [
      {type: 'Hostname', address: 'node-a'},
      {type: 'ExternalIP', address: '203.0.113.10'},
      {type: 'InternalIP', address: '192.168.1.10'},
      {type: 'InternalIP', address: 'fd00:192::10'},
    ],
  },
};

const addresses = JSON.stringify([
  {ifname: 'lo', addr_info: [{local: '127.0.0.1'}, {local: '::1'}]},
  {ifname: 'eth0', addr_info: [{local: '192.168.1.10'}]},
  {ifname: 'cni0', addr_info: [{local: '10.244.1.1'}]},
]);

test('a node has the addresses of its object, internal ones first, and of its interfaces', () => {
  expect(nodeFacts(nodeDump('node-a', {'addresses.json': addresses}), apiObjects({nodes: [node]}))).toMatchObject({
    name: 'node-a',
    hostIPs: ['192.168.1.10', 'fd00:192::10', '203.0.113.10'],
    addresses: ['127.0.0.1', '::1', '192.168.1.10', '10.244.1.1'],
    allAddresses: true,
    podCIDRs: ['10.244.1.0/24', 'fd00:10:1::/64'],
    zone: 'zone-1',
    labels: {'topology.kubernetes.io/zone': 'zone-1'},
    primaryInterface: 'eth0',
  });
});

test('without its interfaces a node has only some of its addresses', () => {
  expect(nodeFacts(nodeDump('node-a'), apiObjects({nodes: [node]}))).toMatchObject({
    addresses: ['192.168.1.10', 'fd00:192::10', '203.0.113.10', '127.0.0.1', '::1'],
    allAddresses: false,
    primaryInterface: null,
  });
});

test('without its object a node has only its interfaces', () => {
  for (const nodes of [null, []]) {
    expect(nodeFacts(nodeDump('node-a', {'addresses.json': addresses}), apiObjects({nodes}))).toMatchObject({
      hostIPs: [],
      allAddresses: true,
      podCIDRs: [],
      zone: null,
      primaryInterface: null,
    });
  }
});

test('an unreadable list of interfaces is a problem, and the node is known without it', () => {
  const broken = nodeDump('node-a', {'addresses.json': 'Object "-j" is unknown'});
  expect(readNodeFacts(broken, apiObjects({})).problem).toMatchObject({
    node: 'node-a',
    message: expect.stringContaining('nodes/node-a/addresses.json'),
  });
  expect(nodeFacts(broken, apiObjects({nodes: [node]}))).toMatchObject({
    allAddresses: false,
    hostIPs: ['192.168.1.10', 'fd00:192::10', '203.0.113.10'],
  });
  expect(readNodeFacts(nodeDump('node-a'), apiObjects({})).problem).toBeNull();
  expect(readNodeFacts(nodeDump('node-a', {'addresses.json': addresses}), apiObjects({})).problem).toBeNull();
});

test('an old Node has one podCIDR', () => {
  const old = {metadata: {name: 'node-a'}, spec: {podCIDR: '10.244.1.0/24'}};
  expect(nodeFacts(nodeDump('node-a'), apiObjects({nodes: [old]})).podCIDRs).toEqual(['10.244.1.0/24']);
});

test('the first address of a family is the address of the node in that family', () => {
  const facts = nodeFacts(nodeDump('node-a'), apiObjects({nodes: [node]}));
  expect([hostIP(facts, 'IPv4'), hostIP(facts, 'IPv6')]).toEqual(['192.168.1.10', 'fd00:192::10']);
  expect(hostIP({...facts, hostIPs: ['192.168.1.10']}, 'IPv6')).toBeNull();
});

test('a node of a capture is read', async () => {
  const {api, nodes} = await snapshotOf('healthy/1.36-iptables');
  const [first] = nodes;
  if (first === undefined) throw new Error('no node');
  expect(nodeFacts(first, api)).toMatchObject({
    name: 'node-a',
    hostIPs: ['172.18.0.11'],
    addresses: ['127.0.0.1', '::1', '172.18.0.11', 'fe80::9c9f:6cff:feb2:e347'],
    podCIDRs: ['10.244.11.0/24'],
    zone: 'zone-1',
    labels: {'topology.kubernetes.io/zone': 'zone-1'},
    primaryInterface: 'eth0',
  });
});
