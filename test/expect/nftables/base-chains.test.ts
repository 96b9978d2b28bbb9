/** The chains and sets that all Services share, against section 2 of kube-proxy's rules in nftables mode. */
import {describe, expect, test} from 'vitest';
import type {ConfigOverrides} from '../../../src/expect/resolve-proxy-config.ts';
import type {Family} from '../../../src/model/address.ts';
import {apiObjects, nodeDump} from '../../cluster.ts';
import {chainsOf, elementsOf, expectedTable} from '../../nft-expectation.ts';

describe('the base chains', () => {
  test.each([
    [
      36,
      [
        'filter-prerouting-pre-dnat filter prerouting -110',
        'filter-output-pre-dnat filter output -110',
        'filter-input filter input 0',
        'filter-forward filter forward 0',
        'filter-output filter output 0',
      ],
    ],
    [
      32,
      [
        'filter-prerouting filter prerouting -110',
        'filter-input filter input -110',
        'filter-forward filter forward -110',
        'filter-output filter output -110',
        'filter-output-post-dnat filter output -90',
      ],
    ],
    [29, ['filter-input filter input -101', 'filter-forward filter forward -101', 'filter-output filter output -101']],
  ])('of 1.%i', (minor, filters) => {
    const nat = ['nat-prerouting nat prerouting -100', 'nat-output nat output -100', 'nat-postrouting nat postrouting 100'];
    const bases = tableOf({minor}).baseChains.map(({name, base}) => `${name} ${base?.type} ${base?.hook} ${base?.priority}`);
    expect(bases).toEqual([...filters, ...nat]);
  });

  test('1.34 checks source ranges before DNAT, and unused ports of cluster IPs after it', () => {
    const chains = chainsOf(tableOf({minor: 34}));
    expect(chains['filter-output-pre-dnat']).toEqual(['ct state new jump firewall-check']);
    expect(chains['filter-output']).toEqual(['ct state new jump service-endpoints-check', 'ct state new jump cluster-ips-check']);
  });

  test('1.32 does both on one hook of output', () => {
    const chains = chainsOf(tableOf({minor: 32}));
    expect(chains['filter-output']).toEqual(['ct state new jump service-endpoints-check', 'ct state new jump firewall-check']);
    expect(chains['filter-output-post-dnat']).toEqual(['ct state new jump cluster-ips-check']);
  });

  test('1.29 drops INVALID packets in forwarding, unless the node is liberal', () => {
    const forward = (tcpBeLiberal: boolean) => chainsOf(tableOf({minor: 29, tcpBeLiberal}));
    expect(forward(false)['filter-forward']).toEqual([
      'ct state new jump endpoints-check',
      'jump forward',
      'ct state new jump firewall-check',
    ]);
    expect(forward(false)['forward']).toEqual(['ct state invalid drop']);
    expect(forward(true)['forward']).toEqual([]);
  });
});

describe('the chain services', () => {
  const lookups = [
    'ip daddr . meta l4proto . th dport vmap @service-ips',
    'ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports',
  ];

  test('marks in 1.36 packets to cluster IPs from external clients', () => {
    expect(chainsOf(tableOf({}))['services']).toEqual([
      'ip daddr @cluster-ips ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x00004000 comment "masquerade clusterIP traffic from outside cluster"',
      ...lookups,
    ]);
  });

  test('marks in 1.36 with masqueradeAll all packets to cluster IPs', () => {
    expect(chainsOf(tableOf({masqueradeAll: true}))['services']?.[0]).toBe(
      'ip daddr @cluster-ips meta mark set meta mark | 0x00004000 comment "masquerade all clusterIP traffic"',
    );
  });

  test('marks nothing in 1.35, nor in a family without a cluster network', () => {
    expect(chainsOf(tableOf({minor: 35}))['services']).toEqual(lookups);
    expect(chainsOf(tableOf({family: 'IPv6'}))['services']?.[0]).toBe('ip6 daddr . meta l4proto . th dport vmap @service-ips');
  });

  test.each([
    [36, {detectLocalMode: 'BridgeInterface', bridgeInterface: 'cbr0'}, 'iifname != "cbr0"'],
    [36, {detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: 'veth'}, 'iifname != "veth*"'],
  ])('1.%i matches pods by their interface: %o', (minor, overrides, match) => {
    expect(chainsOf(tableOf({minor, overrides}))['services']?.[0]).toContain(`@cluster-ips ${match} meta mark set`);
  });
});

describe('masquerading', () => {
  test('honors the mark and matches hairpins in 1.36', () => {
    const chains = chainsOf(tableOf({overrides: {nftMasqueradeBit: 5}}));
    expect(chains['masquerading']).toEqual([
      'meta mark & 0x00000020 != 0x00000000 meta mark set meta mark ^ 0x00000020 masquerade fully-random',
      'ct status dnat ip saddr . ip daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random',
    ]);
    expect(chains['mark-for-masquerade']).toBeUndefined();
  });

  test('returns unmarked packets before 1.36', () => {
    const chains = chainsOf(tableOf({minor: 35}));
    expect(chains['masquerading']).toEqual([
      'meta mark & 0x00004000 == 0x00000000 return',
      'meta mark set meta mark ^ 0x00004000',
      'masquerade fully-random',
    ]);
    expect(chains['mark-for-masquerade']).toEqual(['meta mark set meta mark | 0x00004000']);
  });
});

describe('the addresses of node ports', () => {
  test.each([
    ['1.31 takes the Node’s own by default', {minor: 31}, ['172.18.0.11']],
    ['1.30 does the same', {minor: 30}, ['172.18.0.11']],
    ['primary names them', {overrides: {nodePortAddresses: ['primary']}}, ['172.18.0.11']],
    ['networks pick from the interfaces, loopback never', {overrides: {nodePortAddresses: ['10.0.0.0/8', '127.0.0.0/8']}}, ['10.9.0.11']],
  ])('%s', (_, setup, addresses) => {
    const table = tableOf(setup);
    expect(elementsOf(table, 'nodeport-ips')).toEqual(addresses);
    expect(chainsOf(table)['nodeport-endpoints-check']).toEqual([
      'ip daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports',
    ]);
  });

  test.each([
    [
      'of a zero prefix are all addresses except loopback ones',
      {overrides: {nodePortAddresses: ['0.0.0.0/0']}},
      'IPv4',
      'ip daddr != 127.0.0.0/8',
    ],
    ['of a family without an entry are all addresses as well', {}, 'IPv6', 'ip6 daddr != ::1'],
  ] as const)('%s', (_, setup, family, match) => {
    const table = tableOf({...setup, family});
    expect(table.set('nodeport-ips')).toBeUndefined();
    expect(chainsOf(table)['services']?.at(-1)).toBe(`fib daddr type local ${match} meta l4proto . th dport vmap @service-nodeports`);
    expect(chainsOf(table)['nodeport-endpoints-check']).toEqual([`${match} meta l4proto . th dport vmap @no-endpoint-nodeports`]);
  });

  test('1.30 has an empty set if the Node has no IPv6 address', () => {
    const table = tableOf({minor: 30, family: 'IPv6'});
    expect(table.set('nodeport-ips')?.elements.size).toBe(0);
  });

  test('1.29 uses all addresses by default', () => {
    const table = tableOf({minor: 29});
    expect(chainsOf(table)['endpoints-check']).toEqual([
      'ip daddr . meta l4proto . th dport vmap @no-endpoint-services',
      'fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport vmap @no-endpoint-nodeports',
    ]);
  });
});

interface TableSetup {
  readonly minor?: number;
  readonly family?: Family;
  readonly masqueradeAll?: boolean;
  readonly tcpBeLiberal?: boolean;
  readonly overrides?: ConfigOverrides;
}

function tableOf({minor = 36, family = 'IPv4', masqueradeAll = false, tcpBeLiberal = false, overrides = {}}: TableSetup) {
  const addresses = ['172.18.0.11', '10.9.0.11', '127.0.0.1'].map(local => ({local, family: 'inet'}));
  const node = nodeDump('node-a', {'addresses.json': JSON.stringify([{ifname: 'eth0', addr_info: addresses}])});
  const api = apiObjects({
    services: [],
    endpointSlices: [],
    nodes: [{metadata: {name: 'node-a'}, status: {addresses: [{type: 'InternalIP', address: '172.18.0.11'}]}}],
  });
  const settings = {version: `v1.${minor}.0`, clusterCIDRs: ['10.244.0.0/16'], masqueradeAll, tcpBeLiberal, ...overrides};
  return expectedTable({api, node, family, overrides: settings});
}
