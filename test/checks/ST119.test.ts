import {expect, test} from 'vitest';
import {containing, type Scenario, scenario} from '../scenario.ts';

const internalIP = (node: string, address: string) => (given: Scenario) =>
  given.nodeObject(node, object => ({...object, status: {...object.status, addresses: [{type: 'InternalIP', address}]}}));

const alsoInternalIP = (node: string, address: string) => (given: Scenario) =>
  given.nodeObject(node, object => ({
    ...object,
    status: {...object.status, addresses: [...(object.status?.addresses ?? []), {type: 'InternalIP', address}]},
  }));

const ofType = (type: string, change: (given: Scenario) => void) => (given: Scenario) => {
  change(given);
  given.nodeObject('node-b', object => ({...object, metadata: {...object.metadata, labels: {...object.metadata.labels, type}}}));
};

/** Its interfaces were not read. */
const sameAsNodeC = (given: Scenario) => {
  internalIP('node-b', '172.18.0.13')(given);
  given.file('node-b', 'addresses.json', null);
};

const podNetworkOfNodeB = (given: Scenario) => {
  given.nodeObject('node-c', node => ({...node, spec: {...node.spec, podCIDR: '10.244.12.0/24', podCIDRs: ['10.244.12.0/24']}}));
};

/** web-1 is on node-a. */
const addressOfWeb1 =
  (change: 'is ready' | 'is not ready' | 'is deleted' | 'is of the host') =>
  (given: Scenario): void =>
    given.api(({pods}) => ({
      pods: (pods ?? []).map(pod => {
        if (pod.metadata.name !== 'web-3') return pod;
        const conditions = [{type: 'Ready', status: change === 'is not ready' ? 'False' : 'True'}];
        return {
          ...pod,
          metadata: {...pod.metadata, ...(change === 'is deleted' ? {deletionTimestamp: '2026-01-01T00:00:00Z'} : {})},
          spec: {...pod.spec, hostNetwork: change === 'is of the host'},
          status: {...pod.status, conditions, podIP: '10.244.11.4', podIPs: [{ip: '10.244.11.4'}]},
        };
      }),
    }));

/** Severity, node and message of each. */
async function found(change: (given: Scenario) => void): Promise<readonly unknown[]> {
  const given = await scenario();
  change(given);
  const findings = given.findings().filter(({code}) => code === 'ST119');
  return findings.map(({severity, node, message}) => [severity, node, message]);
}

test.each<[string, (given: Scenario) => void, readonly (readonly unknown[])[]]>([
  [
    'two ready pods with one address are an error',
    addressOfWeb1('is ready'),
    [['error', undefined, containing('10.244.11.4 of shop/web-1 on node-a, shop/web-3 on node-b')]],
  ],
  [
    'an interface of a node with the address of a pod is an error',
    given => {
      const read = JSON.parse(given.rules('node-b', 'addresses.json').toString()) as object[];
      const tunnel = {ifindex: 9, ifname: 'vxlan.calico', addr_info: [{family: 'inet', local: '10.244.12.4', prefixlen: 32}]};
      given.file('node-b', 'addresses.json', JSON.stringify([...read, tunnel]));
    },
    [['error', 'node-b', containing('an interface of node-b has the address of a pod', '10.244.12.4 of shop/web-3 on node-b')]],
  ],
  [
    'two nodes with one pod network are a warning',
    podNetworkOfNodeB,
    [['warning', undefined, containing('10.244.12.0/24 of node-b, node-c')]],
  ],
  [
    'two nodes with one address are a warning, and the one that lacks it is named',
    internalIP('node-c', '172.18.0.12'),
    [
      ['warning', undefined, containing('172.18.0.12 of node-b, node-c')],
      ['warning', 'node-c', containing('the InternalIP 172.18.0.12 of node-c is on none of its interfaces')],
    ],
  ],
  [
    'an address that no interface of the node has is a warning',
    internalIP('node-b', '192.0.2.7'),
    [['warning', 'node-b', containing('the InternalIP 192.0.2.7 of node-b is on none of its interfaces')]],
  ],
  [
    'an address in the range of pods is a warning',
    given => {
      internalIP('node-b', '10.244.200.12')(given);
      given.file('node-b', 'addresses.json', null);
    },
    [['warning', 'node-b', containing('the address 10.244.200.12 of node-b is in 10.244.0.0/16, the range of pods')]],
  ],
  [
    'of a node whose interfaces were not read the shared address is named',
    sameAsNodeC,
    [['warning', undefined, containing('172.18.0.13 of node-b, node-c')]],
  ],
])('%s', async (_, change, expected) => {
  expect(await found(change)).toEqual(expected);
});

test.each<[string, (given: Scenario) => void]>([
  [
    'a node whose interfaces were not read may have its address on one',
    given => {
      internalIP('node-b', '192.0.2.7')(given);
      given.file('node-b', 'addresses.json', null);
    },
  ],
  [
    'nodes without a pod network share that of their pods by design',
    given => {
      internalIP('node-b', '10.244.200.12')(given);
      given.file('node-b', 'addresses.json', null);
      given.nodeObject('node-b', node => ({...node, spec: {}}));
    },
  ],
  ['an address of an interface that only pods use is beside one of the node', alsoInternalIP('node-b', '172.18.64.9')],
  ['virtual nodes have what their program gives them: addresses', ofType('kwok', sameAsNodeC)],
  ['virtual nodes have what their program gives them: pod networks', ofType('virtual-kubelet', podNetworkOfNodeB)],
  ['pods of virtual nodes have no machine', ofType('kwok', addressOfWeb1('is ready'))],
  ['a pod that was read twice is one pod', given => given.api(({pods}) => ({pods: [...(pods ?? []), ...(pods ?? [])]}))],
  ['an address in another form is the same', internalIP('node-b', '::ffff:172.18.0.12')],
  ['a pod that is not ready may have lost its address', addressOfWeb1('is not ready')],
  ['so may one that is being deleted', addressOfWeb1('is deleted')],
  ['pods in the network of their node share its address by design', addressOfWeb1('is of the host')],
])('nothing is said: %s', async (_, change) => {
  expect(await found(change)).toEqual([]);
});
