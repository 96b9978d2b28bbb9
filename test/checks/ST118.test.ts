import {describe, expect, test} from 'vitest';
import {kernel} from '../incidents/changes.ts';
import {containing, type Scenario, scenario} from '../scenario.ts';

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
});

async function found(change: (given: Scenario) => void, {withRange = false}: {withRange?: boolean} = {}) {
  const given = await scenario();
  if (withRange) given.api(() => range('10.96.0.0/12', 'fd00:10:96::/112'));
  change(given);
  return given.findings().flatMap(({code, severity, message}) => (code === 'ST118' ? [[severity, message]] : []));
}

describe('a bridge of Docker', () => {
  const bridge = (name: string, dst: string) => (given: Scenario) =>
    kernel(given, {links: [{flags: ['UP'], ifname: name, linkinfo: {info_kind: 'bridge'}}], routes: [{dst, dev: name}]});

  test('whose network shares addresses with cluster IPs is told', async () => {
    expect(await found(bridge('docker0', '10.96.0.0/20'))).toEqual([
      ['warning', containing('the network 10.96.0.0/20 of docker0 on node-a shares addresses with the range of cluster IPs')],
    ]);
  });

  test('behind which the routes see other nodes is told with them', async () => {
    expect(await found(bridge('br-0123456789ab', '172.18.0.0/24'))).toEqual([
      ['warning', containing('node-a sends packets to node-b (172.18.0.12), node-c (172.18.0.13), and so what goes to their pods')],
    ]);
  });

  test.each([
    ['of its own network', 'docker0', '172.17.0.0/16'],
    ['of another program', 'virbr0', '172.18.0.0/24'],
  ])('%s is no finding', async (_, name, dst) => {
    expect(await found(bridge(name, dst))).toEqual([]);
  });
});
