/** Each Service port is the same for every packet, or its classes of senders that differ are named, or it says why that is not proved. */
import {describe, expect, test} from 'vitest';
import type {Preview} from '../../src/model/preview-result.ts';
import {previewRenderers} from '../../src/render/preview/preview-report.ts';
import type {Scenario} from '../scenario.ts';
import {interfaces, previewFrom} from './previews.ts';

const node = 'node-a';
const only = {nodes: [node]};

function statusOf({ports}: Preview, name: string): readonly string[] {
  return ports
    .filter(({service}) => `${service.namespace}/${service.name}` === name)
    .map(({status, reason}) => (reason === undefined ? status : `${status}: ${reason}`));
}

function toNftables(change: (given: Scenario) => void): Promise<Preview> {
  return previewFrom('healthy/1.36-iptables', {mode: 'nftables'}, change, only);
}

function sendersOf({changes}: Preview, name: string): readonly string[] {
  const of = changes.filter(({service}) => `${service.namespace}/${service.name}` === name);
  return [...new Set(of.map(({effect, source: {kind, senders}}) => `${effect} ${kind} ${senders ?? ''}`.trim()))];
}

test('a healthy node is proved for every Service port: those without changes are the same for every packet', async () => {
  const preview = await toNftables(() => {});
  expect(statusOf(preview, 'shop/web')).toEqual(['same']);
  expect(statusOf(preview, 'shop/nodeport')).toEqual(['differs']);
  expect(preview.ports.filter(({status}) => status === 'not-proved')).toEqual([]);
});

describe('a class of senders that no usual packet has', () => {
  // KUBE-FORWARD accepts marked packets before this rule in iptables mode; nftables mode accepts nothing.
  const drop = (from: string) => (given: Scenario) => given.rules(node).append('filter', `-A FORWARD -s ${from} -j DROP`);

  test('is found and named, with the network', async () => {
    const preview = await toNftables(drop('100.64.0.0/10'));
    expect(sendersOf(preview, 'shop/nodeport')).toContain('lost external 100.64.0.0/10');
    expect(preview.changes.find(({source}) => source.senders !== undefined)?.source.address).toMatch(
      /^100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\./,
    );
  });

  test('names the network also where the usual client is in it', async () => {
    expect(sendersOf(await toNftables(drop('198.18.0.0/16')), 'shop/nodeport')).toContain('lost external 198.18.0.0/16');
  });

  test('is none where no packet of it changes', async () => {
    const preview = await toNftables(drop('127.99.0.0/16'));
    expect(preview.changes.filter(({source}) => source.senders !== undefined)).toEqual([]);
  });
});

describe('senders for which no usual packet stands', () => {
  test('are the other addresses of the node itself, such as that of its bridge to pods', async () => {
    const addresses = (given: Scenario): void => given.file(node, 'addresses.json', interfaces('172.18.0.11', '10.244.11.1'));
    // The rules of masqueradeAll mark what pods send, for which the address of the bridge counts.
    const preview = await previewFrom('settings/masquerade-all', {mode: 'nftables', nftMasqueradeAll: false}, addresses, only);
    expect(sendersOf(preview, 'shop/web')).toContain('source-address node 10.244.11.1 (of the node itself)');
    expect(
      sendersOf(
        await previewFrom('settings/masquerade-all', {mode: 'nftables', nftMasqueradeAll: false}, () => {}, only),
        'shop/web',
      ).join(),
    ).not.toContain('of the node itself');
  });

  test('are pods of other nodes where kube-proxy knows the pods of its own node alone', async () => {
    const drop = (from: string) => (given: Scenario) => given.rules(node).append('filter', `-A FORWARD -s ${from} -j DROP`);
    const to = (from: string) => previewFrom('settings/detect-node-cidr', {mode: 'nftables'}, drop(from), only);
    expect(
      sendersOf(await to('10.244.12.0/24'), 'shop/nodeport').filter(one => one.startsWith('lost external 10.244.12.0/24')),
    ).toHaveLength(1);
  });

  test('are no addresses of Services, but for those that a node has', async () => {
    const external = async (change: (given: Scenario) => void) =>
      sendersOf(await previewFrom('ipvs/1.36', {mode: 'nftables'}, change, only), 'shop/lb-ranges').filter(one => one.includes('external'));
    expect(await external(() => {})).toEqual([]);
    const ofNode = (given: Scenario): void =>
      given.nodeObject('node-b', object => ({
        ...object,
        status: {...object.status, addresses: [{type: 'InternalIP', address: '203.0.113.13'}]},
      }));
    expect(await external(ofNode)).toEqual(['gained external 203.0.113.13 (node node-b)']);
  });

  test('are endpoints that end and connect to their own Service, which older versions do not serve', async () => {
    const upgrade = await previewFrom('healthy/1.23-iptables', {version: 'v1.36.0'}, () => {}, only);
    expect(sendersOf(upgrade, 'shop/leaving')).toContain('gained endpoint');
  });
});

describe('a Service port is not proved', () => {
  test('where its current rules are not the expected ones', async () => {
    const preview = await toNftables(given => given.rules(node).delete('-A KUBE-SERVICES', 'shop/web:http cluster IP'));
    expect(statusOf(preview, 'shop/web').join()).toMatch(/its current rules are not those that kube-proxy writes/);
    expect(statusOf(preview, 'infra/dns').filter(status => status !== 'same')).toEqual([]);
  });

  test('where a rule on the way cannot be interpreted on both sides', async () => {
    const preview = await toNftables(given =>
      given.rules(node).append('mangle', '-A PREROUTING -d 10.96.1.1/32 -m bpf --bytecode "1,6 0 0 0" -j DROP'),
    );
    expect(statusOf(preview, 'shop/web')).toEqual([expect.stringMatching(/^not-proved: a rule cannot be interpreted/)]);
    const [first = ''] = previewRenderers
      .table({...preview, services: 34}, {color: false, width: Infinity, quiet: true, verbose: false, failOn: 'error'})
      .split('\n');
    const [, total = 0, same = 0, differs = 0, rest = 0] = (
      /Of (\d+) Service ports (\d+) are the same for every packet, (\d+) differ, (\d+) (?:is|are) not proved$/.exec(first) ?? []
    ).map(Number);
    expect(rest).toBeGreaterThan(0);
    expect(same + differs + rest).toBe(total);
    expect(total).toBe(preview.ports.length);
  });
});
