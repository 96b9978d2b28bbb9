import {describe, expect, test} from 'vitest';
import {containing, type Scenario, scenario} from '../scenario.ts';
import {kernel} from '../incidents/changes.ts';

const addressOfNodeA = (address: string) => (given: Scenario) =>
  given.nodeObject('node-a', node => ({...node, status: {...node.status, addresses: [{type: 'InternalIP', address}]}}));

const podsOfNodeA = (podCIDR: string) => (given: Scenario) =>
  given.nodeObject('node-a', node => ({...node, spec: {...node.spec, podCIDR, podCIDRs: [podCIDR]}}));

const range = (...cidrs: string[]) => ({serviceCIDRs: [{metadata: {name: 'kubernetes'}, spec: {cidrs}}]});

describe('of addresses inside the Service range', () => {
  test.each<[string, (given: Scenario) => void, string, readonly string[]]>([
    [
      'that of a node which a Service has is an error',
      addressOfNodeA('10.96.1.1'),
      'error',
      ['10.96.1.1 of node-a is the cluster IP of shop/web', 'the Service takes its ports'],
    ],
    [
      'that of a node is told by the ServiceCIDR',
      addressOfNodeA('10.100.7.7'),
      'warning',
      ['10.96.0.0/12', 'the address 10.100.7.7 of node-a'],
    ],
    ['a network of pods is told by the ServiceCIDR', podsOfNodeA('10.97.3.0/24'), 'warning', ['the pod network 10.97.3.0/24 of node-a']],
    ['a network of pods that holds the range is told, too', podsOfNodeA('10.0.0.0/8'), 'warning', ['the pod network 10.0.0.0/8 of node-a']],
  ])('%s', async (_, change, severity, words) => {
    expect(await found(change, {withRange: true})).toEqual([[severity, containing(...words)]]);
  });

  test('that between the first cluster IP and another is one without ServiceCIDRs', async () => {
    expect(await found(addressOfNodeA('10.96.0.7'))).toEqual([
      ['warning', containing('10.96.0.1 to 10.96.', 'the address 10.96.0.7 of node-a')],
    ]);
  });
});

describe('no finding is', () => {
  test.each<[string, (given: Scenario) => void]>([
    ['an address beyond the largest cluster IP, without ServiceCIDRs', addressOfNodeA('10.100.7.7')],
    ['an address before the first one', addressOfNodeA('10.95.255.254')],
  ])('%s', async (_, change) => {
    expect(await found(change)).toEqual([]);
  });

  test.each([
    ['a route to all of the range', [{dst: '10.96.0.0/12', dev: 'eth0'}]],
    ['a route to a host inside it', [{dst: '10.96.0.10', gateway: '172.18.0.12', dev: 'eth0'}]],
    ['a blackhole', [{type: 'blackhole', dst: '10.96.64.0/18', dev: 'lo'}]],
    ['a network that holds it', [{dst: '10.0.0.0/8', gateway: '172.18.0.254', dev: 'eth0'}]],
  ])('%s', async (_, routes) => {
    expect(await found(given => kernel(given, {routes}), {withRange: true})).toEqual([]);
  });
});

const vpn = [{dst: '10.100.0.0/16', gateway: '172.18.0.254', dev: 'eth0'}];

test('a route to a network inside the range is reported for the node that has it', async () => {
  expect(await found(given => kernel(given, {routes: vpn}), {withRange: true})).toEqual([
    ['warning', containing('10.100.0.0/16 by 172.18.0.254', 'that has the address of a Service go to the Service')],
  ]);
});

test.each([
  ['the network', (given: Scenario) => kernel(given, {routes: vpn}), ['10.100.0.0/16 by 172.18.0.254', 'drops new connections']],
  ['other nodes', addressOfNodeA('10.100.7.7'), ['drops new connections', 'the address 10.100.7.7 of node-a']],
])('in nftables mode from 1.33 on, packets to %s are lost', async (_, change, words) => {
  const errors = (await found(change, {withRange: true, capture: 'nftables/1.36'})).filter(([severity]) => severity === 'error');
  expect([...new Set(errors.map(([, message]) => message))]).toEqual([containing(...words)]);
});

async function found(change: (given: Scenario) => void, {withRange = false, capture}: {withRange?: boolean; capture?: string} = {}) {
  const given = await (capture === undefined ? scenario() : scenario(capture));
  if (withRange) given.api(() => range('10.96.0.0/12', 'fd00:10:96::/112'));
  change(given);
  return given.findings().flatMap(({code, severity, message}) => (code === 'ST118' ? [[severity, message]] : []));
}
