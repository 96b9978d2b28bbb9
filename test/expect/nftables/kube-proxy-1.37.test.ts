/** What kube-proxy 1.37 writes in another way than 1.36, in nftables mode. */
import {describe, expect, test} from 'vitest';
import {inferNftConfig} from '../../../src/expect/nftables/infer-nft-config.ts';
import {kubeProxyTables} from '../../../src/analyze/nftables/nft-rules.ts';
import type {ConfigOverrides} from '../../../src/expect/resolve-proxy-config.ts';
import type {Family} from '../../../src/model/address.ts';
import type {ServiceSpec} from '../../../src/model/api-objects.ts';
import {parseNftDump} from '../../../src/parse/nftables/nft-dump.ts';
import {apiObjects, endpoint, nodeDump, service, slice} from '../../cluster.ts';
import {chainsOf, elementsOf, expectedTable} from '../../nft-expectation.ts';
import {nftText} from '../../rendered-nft.ts';

const S = 'service-KHN6ECMT-shop/web/tcp/http';
const L = 'local-KHN6ECMT-shop/web/tcp/http';
const here = endpoint('10.244.11.4', 'node-a');
const there = endpoint('10.244.11.5', 'node-b');
const gate = {featureGates: {KubeProxyNFTablesLocalhostNodePorts: true}};
const nodePort: ServiceSpec = {type: 'NodePort', ports: [{name: 'http', port: 80, nodePort: 30_080, protocol: 'TCP'}]};

describe('one endpoint', () => {
  test('is the target of DNAT without a map from 1.37 on', () => {
    expect(chainsOf(tableOf({endpoints: [here]}))[S]).toEqual(['meta l4proto tcp dnat to 10.244.11.4:8080']);
    expect(chainsOf(tableOf({endpoints: [here], minor: 36}))[S]).toEqual([
      'meta l4proto tcp dnat ip to numgen random mod 1 map { 0 : 10.244.11.4 . 8080 }',
    ]);
  });

  test('has brackets in IPv6', () => {
    const table = tableOf({endpoints: [endpoint('fd00::4', 'node-a')], family: 'IPv6'});
    expect(chainsOf(table)[S]).toEqual(['meta l4proto tcp dnat to [fd00::4]:8080']);
  });

  test('is counted separately for the service chain and the local chain', () => {
    const chains = chainsOf(tableOf({endpoints: [here, there], spec: {...nodePort, externalTrafficPolicy: 'Local'}}));
    expect(chains[S]?.[0]).toContain('numgen random mod 2 map');
    expect(chains[L]).toEqual(['meta l4proto tcp dnat to 10.244.11.4:8080']);
  });

  test('keeps its map with session affinity', () => {
    const chains = chainsOf(tableOf({endpoints: [here], spec: {sessionAffinity: 'ClientIP'}}));
    expect(chains[S]?.at(-1)).toContain('numgen random mod 1 vmap');
  });
});

describe('the comment of an element', () => {
  const name = 'w'.repeat(130);
  test('is truncated to 128 bytes from 1.37 on', () => {
    expect(comments(37)).toEqual([`shop/${name}:http`.slice(0, 128)]);
    expect(comments(36)).toEqual([`shop/${name}:http`]);
  });

  function comments(minor: number): readonly (string | null)[] {
    const table = tableOf({endpoints: [], minor, name: `shop/${name}`});
    return [...(table.set('no-endpoint-services')?.elements.values() ?? [])].map(({comment}) => comment);
  }
});

describe('node ports on loopback addresses', () => {
  const udp: ServiceSpec = {type: 'NodePort', ports: [{name: 'http', port: 53, nodePort: 30_053, protocol: 'UDP'}]};

  test('are not handled without the gate, nor by 1.36', () => {
    for (const table of [tableOf({endpoints: [here], spec: nodePort}), tableOf({endpoints: [here], spec: nodePort, minor: 36, ...gate})]) {
      expect(table.set('localhost-nodeport-reject-ports')).toBeUndefined();
      expect(chainsOf(table)['nodeport-endpoints-check']).toHaveLength(1);
    }
  });

  test('are rejected for every protocol while nodePortAddresses names no loopback address', () => {
    const table = tableOf({endpoints: [here], spec: nodePort, ...gate});
    expect(elementsOf(table, 'localhost-nodeport-reject-ports')).toEqual(['tcp . 30080 : goto localhost-nodeport-reject-tcp']);
    const chains = chainsOf(table);
    expect(chains['nodeport-endpoints-check']?.[1]).toBe(
      'ip daddr 127.0.0.0/8 meta l4proto . th dport vmap @localhost-nodeport-reject-ports',
    );
    expect(chains['localhost-nodeport-reject-tcp']).toEqual(['counter name "localhost-nodeport-rejected-tcp" reject']);
  });

  test('are rejected only for UDP and SCTP if kube-proxy listens for TCP itself', () => {
    const listens = {...gate, nodePortAddresses: ['primary', 'localhost']};
    const tcp = tableOf({endpoints: [here], spec: nodePort, ...listens});
    expect(elementsOf(tcp, 'localhost-nodeport-reject-ports')).toEqual([]);
    expect(chainsOf(tcp)['localhost-nodeport-reject-tcp']).toBeUndefined();
    expect(elementsOf(tableOf({endpoints: [here], spec: udp, ...listens}), 'localhost-nodeport-reject-ports')).toEqual([
      'udp . 30053 : goto localhost-nodeport-reject-udp',
    ]);
  });

  test.each([
    [['127.0.0.1/32'], 'IPv4', true],
    [['::1/128'], 'IPv4', false],
    [['::1/128'], 'IPv6', true],
    [['all'], 'IPv4', false],
    [['0.0.0.0/0'], 'IPv4', false],
  ] as const)('nodePortAddresses %s in %s make kube-proxy listen: %s', (nodePortAddresses, family, listens) => {
    expect(tableOf({endpoints: [], spec: nodePort, ...gate, nodePortAddresses, family}).context.listensOnLocalhost).toBe(listens);
  });

  test('are inferred from a table whose other settings are unknown', () => {
    const seen = (nodePortAddresses: readonly string[]) => {
      const text = nftText(tableOf({endpoints: [here], spec: nodePort, ...gate, nodePortAddresses}));
      return inferNftConfig(kubeProxyTables(parseNftDump(text)));
    };
    expect(seen(['primary'])).toMatchObject({...gate, nodePortAddresses: ['172.18.0.11']});
    expect(seen(['primary', 'localhost'])).toMatchObject({...gate, nodePortAddresses: ['172.18.0.11', '127.0.0.0/8']});
  });
});

describe('the keywords of nodePortAddresses', () => {
  test.each([
    [['primary', 'localhost'], 'IPv4', ['172.18.0.11']],
    [['primary', 'localhost'], 'IPv6', []],
    [['localhost'], 'IPv4', []],
    [['primary', '10.0.0.0/8'], 'IPv4', ['172.18.0.11', '10.9.0.11']],
  ] as const)('%s in %s selects the set %s', (nodePortAddresses, family, addresses) => {
    const table = tableOf({endpoints: [], nodePortAddresses, family});
    expect(table.set('nodeport-ips')).toBeDefined();
    expect(elementsOf(table, 'nodeport-ips')).toEqual([...addresses].sort());
  });

  test.each([
    [['primary'], 'IPv6'],
    [['all'], 'IPv4'],
    [['primary', 'all'], 'IPv4'],
  ] as const)('%s in %s selects every address', (nodePortAddresses, family) => {
    expect(tableOf({endpoints: [], nodePortAddresses, family}).set('nodeport-ips')).toBeUndefined();
  });
});

describe('the fingerprint of a table', () => {
  test.each([36, 37])('of 1.%i with a single endpoint', minor => {
    const {version} = inferNftConfig(kubeProxyTables(parseNftDump(nftText(tableOf({endpoints: [here], minor})))));
    expect(version).toMatchObject({minor, guessed: true});
  });
});

interface TableSetup extends ConfigOverrides {
  readonly endpoints: readonly ReturnType<typeof endpoint>[];
  readonly spec?: ServiceSpec;
  readonly minor?: number;
  readonly family?: Family;
  readonly name?: string;
}

function tableOf({endpoints, spec, minor = 37, family = 'IPv4', name = 'shop/web', ...overrides}: TableSetup) {
  const clusterIP = family === 'IPv4' ? '10.96.1.1' : 'fd00:96::1';
  const api = apiObjects({
    services: [service(name, {clusterIP, ports: [{name: 'http', port: 80, protocol: 'TCP'}], ...spec})],
    endpointSlices: [
      slice(name, endpoints, {
        addressType: family,
        ports: [{name: 'http', port: 8080, protocol: spec?.ports?.[0]?.protocol ?? 'TCP'}],
      }),
    ],
    nodes: [{metadata: {name: 'node-a'}, status: {addresses: [{type: 'InternalIP', address: '172.18.0.11'}]}}],
  });
  const interfaces = [
    {ifname: 'lo', addr_info: [{local: '127.0.0.1'}, {local: '::1'}]},
    {ifname: 'eth0', addr_info: [{local: '172.18.0.11'}]},
    {ifname: 'eth1', addr_info: [{local: '10.9.0.11'}]},
  ];
  const node = nodeDump('node-a', {'addresses.json': JSON.stringify(interfaces)});
  return expectedTable({api, node, family, overrides: {version: `v1.${minor}.0`, clusterCIDRs: ['10.244.0.0/16'], ...overrides}});
}
