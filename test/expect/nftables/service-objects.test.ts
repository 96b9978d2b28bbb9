/** One Service port in nftables mode, against section 3 of kube-proxy's rules in nftables mode: the letters stand for its templates. */
import {describe, expect, test} from 'vitest';
import type {ServiceSpec} from '../../../src/model/api-objects.ts';
import {apiObjects, endpoint, gone, nodeDump, service, slice} from '../../cluster.ts';
import {chainsOf, elementsOf, expectedTable} from '../../nft-expectation.ts';

const S = 'service-KHN6ECMT-shop/web/tcp/http';
const L = 'local-KHN6ECMT-shop/web/tcp/http';
const X = 'external-KHN6ECMT-shop/web/tcp/http';
const F = 'firewall-KHN6ECMT-shop/web/tcp/http';
const E4 = 'endpoint-GXDMGVDY-shop/web/tcp/http__10.244.11.4/8080';
const E5 = 'endpoint-6KEJ2KDL-shop/web/tcp/http__10.244.11.5/8080';
const marks = 'meta mark set meta mark | 0x00004000';

const here = endpoint('10.244.11.4', 'node-a');
const there = endpoint('10.244.11.5', 'node-b');

describe('kube-proxy 1.36', () => {
  test('a plain Service is translated in its own chain, without chains of endpoints', () => {
    const table = tableOf({}, {endpoints: [here, there]});
    expect(ownChains(table)).toEqual({
      [S]: ['meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.244.11.4 . 8080, 1 : 10.244.11.5 . 8080 }'],
    });
    expect(elementsOf(table, 'service-ips')).toEqual([`10.96.1.1 . tcp . 80 : goto ${S}`]);
    expect(elementsOf(table, 'cluster-ips')).toEqual(['10.96.1.1']);
    expect(elementsOf(table, 'hairpin-connections')).toEqual(['10.244.11.4 . 10.244.11.4 . tcp . 8080']);
    expect(elementsOf(table, 'no-endpoint-services')).toEqual([]);
  });

  test('a Service without usable endpoints is rejected, and stays in the set of cluster IPs', () => {
    const table = tableOf(nodePort, {endpoints: [endpoint('10.244.11.4', 'node-a', gone)]});
    expect(ownChains(table)).toEqual({});
    expect(elementsOf(table, 'service-ips')).toEqual([]);
    expect(elementsOf(table, 'service-nodeports')).toEqual([]);
    expect(elementsOf(table, 'cluster-ips')).toEqual(['10.96.1.1']);
    expect(elementsOf(table, 'no-endpoint-services')).toEqual(['10.96.1.1 . tcp . 80 : goto reject-chain']);
    expect(elementsOf(table, 'no-endpoint-nodeports')).toEqual(['tcp . 30080 : goto reject-chain']);
  });

  test('with session affinity every endpoint has a chain and a set', () => {
    const table = tableOf(
      {sessionAffinity: 'ClientIP', sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}},
      {endpoints: [here, there]},
    );
    const set = (chain: string): string => chain.replace('endpoint-', 'affinity-');
    expect(ownChains(table)).toEqual({
      [S]: [
        `ip saddr @${set(E4)} goto ${E4}`,
        `ip saddr @${set(E5)} goto ${E5}`,
        `numgen random mod 2 vmap { 0 : goto ${E4}, 1 : goto ${E5} }`,
      ],
      [E4]: [`update @${set(E4)} { ip saddr }`, 'meta l4proto tcp dnat to 10.244.11.4:8080'],
      [E5]: [`update @${set(E5)} { ip saddr }`, 'meta l4proto tcp dnat to 10.244.11.5:8080'],
    });
    expect(table.set(set(E4))).toMatchObject({keyTypes: ['ipv4_addr'], flags: ['timeout'], timeout: 600});
  });

  test('the Cluster policy marks all external traffic', () => {
    const table = tableOf(nodePort, {endpoints: [here]});
    expect(ownChains(table)[X]).toEqual([`${marks} comment "masquerade"`, `goto ${S}`]);
    expect(elementsOf(table, 'service-nodeports')).toEqual([`tcp . 30080 : goto ${X}`]);
  });

  test('under the Local policy pods and the node bypass it, and all other clients reach endpoints of the node', () => {
    const table = tableOf({...nodePort, externalTrafficPolicy: 'Local'}, {endpoints: [here, there]});
    expect(ownChains(table)[X]).toEqual([
      `ip saddr 10.244.0.0/16 goto ${S} comment "short-circuit pod traffic"`,
      `fib saddr type local ${marks} comment "masquerade local traffic"`,
      `fib saddr type local goto ${S} comment "short-circuit local traffic"`,
      `goto ${L}`,
    ]);
    expect(ownChains(table)[L]).toEqual(['meta l4proto tcp dnat ip to numgen random mod 1 map { 0 : 10.244.11.4 . 8080 }']);
  });

  test('the Local policy without a local endpoint drops, except for pods and the node: both maps contain the node port', () => {
    const table = tableOf({...nodePort, externalTrafficPolicy: 'Local'}, {endpoints: [there]});
    expect(ownChains(table)[X]?.at(-1)).toBe(`fib saddr type local goto ${S} comment "short-circuit local traffic"`);
    expect(elementsOf(table, 'service-nodeports')).toEqual([`tcp . 30080 : goto ${X}`]);
    expect(elementsOf(table, 'no-endpoint-nodeports')).toEqual(['tcp . 30080 : drop']);
    expect(elementsOf(table, 'no-endpoint-services')).toEqual([]);
  });

  test('an internal policy Local without a local endpoint is dropped at the cluster IP', () => {
    const table = tableOf({internalTrafficPolicy: 'Local'}, {endpoints: [there]});
    expect(elementsOf(table, 'service-ips')).toEqual([]);
    expect(elementsOf(table, 'no-endpoint-services')).toEqual(['10.96.1.1 . tcp . 80 : drop']);
  });

  test('source ranges are written even for a Service without endpoints', () => {
    const ranges = {loadBalancerSourceRanges: ['203.0.113.0/28', '198.51.100.0/24']};
    for (const endpoints of [[here], []]) {
      const table = tableOf({...balancer, ...ranges}, {endpoints, ingress: '203.0.113.13'});
      expect(ownChains(table)[F]).toEqual(['ip saddr != { 198.51.100.0/24, 203.0.113.0/28 } drop']);
      expect(elementsOf(table, 'firewall-ips')).toEqual([`203.0.113.13 . tcp . 80 : goto ${F}`]);
    }
  });

  test.each([
    [['10.1.2.0/24'], 'ip saddr != 10.1.2.0/24 drop'],
    [['203.0.113.7/32'], 'ip saddr != 203.0.113.7 drop'],
    [['203.0.113.0/29', '203.0.113.8/29'], 'ip saddr != { 203.0.113.0/28 } drop'],
    [['10.0.0.0/23', '10.0.2.0/24'], 'ip saddr != { 10.0.0.0-10.0.2.255 } drop'],
    [['172.18.0.0/16'], 'ip saddr != { 172.18.0.0/16, 203.0.113.13 } drop'],
  ])('source ranges %s', (loadBalancerSourceRanges, rule) => {
    const table = tableOf({...balancer, loadBalancerSourceRanges}, {endpoints: [here], ingress: '203.0.113.13'});
    expect(ownChains(table)[F]).toEqual([rule]);
  });
});

describe('differences between versions', () => {
  test.each([
    [35, 'ip daddr 10.96.1.1 ip saddr != 10.244.0.0/16 jump mark-for-masquerade'],
    [34, 'ip daddr 10.96.1.1 ip saddr != 10.244.0.0/16 jump mark-for-masquerade'],
    [33, 'ip daddr 10.96.1.1 tcp dport 80 ip saddr != 10.244.0.0/16 jump mark-for-masquerade'],
    [30, 'ip daddr 10.96.1.1 tcp dport 80 ip saddr != 10.244.0.0/16 jump mark-for-masquerade'],
  ])('1.%i marks cluster-IP traffic in the chain of the Service, and hairpins in that of the endpoint', (minor, mark) => {
    const chains = ownChains(tableOf({}, {endpoints: [here], minor}));
    expect(chains).toEqual({
      [S]: [mark, `numgen random mod 1 vmap { 0 : goto ${E4} }`],
      [E4]: ['ip saddr 10.244.11.4 jump mark-for-masquerade', 'meta l4proto tcp dnat to 10.244.11.4:8080'],
    });
  });

  test('1.35 marks external traffic by a jump that has no comment', () => {
    expect(ownChains(tableOf(nodePort, {endpoints: [here], minor: 35}))[X]).toEqual(['jump mark-for-masquerade', `goto ${S}`]);
  });

  test('1.35 with masqueradeAll marks packets of all clients', () => {
    const chains = ownChains(tableOf({}, {endpoints: [here], minor: 35, masqueradeAll: true}));
    expect(chains[S]?.[0]).toBe('ip daddr 10.96.1.1 jump mark-for-masquerade');
  });

  test.each([
    [36, []],
    [33, ['ip saddr != { 0.0.0.0/0 } drop']],
  ])('1.%i and a source range of a zero prefix', (minor, rules) => {
    const spec = {...balancer, loadBalancerSourceRanges: ['0.0.0.0/0', '10.0.0.0/8']};
    expect(ownChains(tableOf(spec, {endpoints: [here], ingress: '203.0.113.13', minor}))[F] ?? []).toEqual(rules);
  });

  test('1.29 lists source ranges one by one in a set, and has no firewall chains', () => {
    const spec = {...balancer, loadBalancerSourceRanges: ['10.1.2.0/24', '198.51.100.0/24']};
    const table = tableOf(spec, {endpoints: [here], ingress: '203.0.113.13', minor: 29});
    expect(ownChains(table)[F]).toBeUndefined();
    expect(elementsOf(table, 'firewall')).toEqual(['203.0.113.13 . tcp . 80']);
    expect(elementsOf(table, 'firewall-allow')).toEqual([
      '203.0.113.13 . tcp . 80 . 10.1.2.0/24',
      '203.0.113.13 . tcp . 80 . 198.51.100.0/24',
    ]);
    expect(table.set('cluster-ips')).toBeUndefined();
  });
});

const nodePort: ServiceSpec = {type: 'NodePort', ports: [{name: 'http', port: 80, nodePort: 30_080, protocol: 'TCP'}]};
const balancer: ServiceSpec = {type: 'LoadBalancer'};

interface TableSetup {
  readonly endpoints: readonly ReturnType<typeof endpoint>[];
  readonly ingress?: string;
  readonly minor?: number;
  readonly masqueradeAll?: boolean;
}

function tableOf(spec: ServiceSpec, {endpoints, ingress, minor = 36, masqueradeAll = false}: TableSetup) {
  const whole = {clusterIP: '10.96.1.1', ports: [{name: 'http', port: 80, protocol: 'TCP'}], ...spec};
  const api = apiObjects({
    services: [service('shop/web', whole, ingress === undefined ? {} : {ingress: [{ip: ingress}]})],
    endpointSlices: [slice('shop/web', endpoints, {ports: [{name: 'http', port: 8080, protocol: 'TCP'}]})],
    nodes: [{metadata: {name: 'node-a'}, status: {addresses: [{type: 'InternalIP', address: '172.18.0.11'}]}}],
  });
  const overrides = {version: `v1.${minor}.0`, clusterCIDRs: ['10.244.0.0/16'], masqueradeAll};
  return expectedTable({api, node: nodeDump('node-a'), overrides});
}

function ownChains(table: ReturnType<typeof tableOf>): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(Object.entries(chainsOf(table)).filter(([name]) => name.includes('/')));
}
