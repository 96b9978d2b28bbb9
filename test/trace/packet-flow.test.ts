/**
 * The packet-flow tables of kube-proxy's own tests, in their idea: Services of every shape, packets from pods, the node, its
 * loopback address and from outside, and where they must end up. The expected rules stand in for those of a kube-proxy.
 */
import {describe, expect, test} from 'vitest';
import type {ServiceSpec} from '../../src/model/api-objects.ts';
import {endpoint, gone, type LoadBalancerIngress, leaving, service, slice} from '../cluster.ts';
import {expectedOf, type Setup} from '../kube-proxy.ts';
import {flow, outcomes, type Sent} from './send.ts';

const pod = '10.244.1.200';
const node = '192.168.1.10';
const otherAddress = '10.9.9.9';
const loopback = '127.0.0.1';
const client = '203.0.113.9';
const externalClient = '203.0.113.200';

const port = {name: 'http', port: 80, protocol: 'TCP'};
const ports = [{name: 'http', port: 8080, protocol: 'TCP'}];
const here = endpoint('10.244.1.5', 'node-a');
const there = endpoint('10.244.2.7', 'node-b');
const [local, remote] = ['10.244.1.5:8080', '10.244.2.7:8080'];
const both = `${local}, ${remote}`;
const masqueraded = (list: string) =>
  list
    .split(', ')
    .map(item => `${item} masqueraded`)
    .join(', ');

function cluster(
  spec: ServiceSpec,
  endpoints: readonly ReturnType<typeof endpoint>[],
  more: Setup & {ingress?: readonly LoadBalancerIngress[]} = {},
) {
  const {ingress = [], ...setup} = more;
  return expectedOf({
    services: [service('shop/web', {clusterIP: '10.96.1.1', ports: [port], ...spec}, {ingress})],
    slices: [slice('shop/web', endpoints, {ports})],
    ...setup,
  });
}

const balancer: ServiceSpec = {type: 'LoadBalancer', ports: [{...port, nodePort: 30080}], externalIPs: ['198.51.100.8']};
const ingress = [{ip: '198.51.100.7'}];
const toCluster = {to: '10.96.1.1', port: 80};
const toNode = {to: node, port: 30080};
const toBalancer = {to: '198.51.100.7', port: 80};
const toExternal = {to: '198.51.100.8', port: 80};

describe('masquerading (TestInternalExternalMasquerade)', () => {
  // Three load balancers: both policies Cluster; external policy Local; internal policy Local.
  const shapes = [
    {name: 'plain', clusterIP: '10.96.0.41', nodePort: 30001, vip: '198.51.100.41', policy: {}},
    {name: 'outside', clusterIP: '10.96.0.42', nodePort: 30002, vip: '198.51.100.42', policy: {externalTrafficPolicy: 'Local'}},
    {name: 'inside', clusterIP: '10.96.0.43', nodePort: 30003, vip: '198.51.100.43', policy: {internalTrafficPolicy: 'Local'}},
  ];
  const services = shapes.map(({name, clusterIP, nodePort, vip, policy}) =>
    service(
      `shop/${name}`,
      {type: 'LoadBalancer', clusterIP, ports: [{...port, nodePort}], healthCheckNodePort: 32000, ...policy},
      {ingress: [{ip: vip}]},
    ),
  );
  const slices = shapes.map(({name}, index) =>
    slice(`shop/${name}`, [endpoint(`10.244.11.${index}`, 'node-a'), endpoint(`10.244.22.${index}`, 'node-b')], {ports}),
  );

  type From = 'pod' | 'node' | 'loopback' | 'client';
  type Entry = 'cluster IP' | 'node port' | 'load balancer';
  /** Which endpoints, and whether masqueraded. */
  type End = 'all' | 'all masqueraded' | 'local' | 'local masqueraded';

  const rows: readonly (readonly [from: From, entry: Entry, plain: End, outside: End, inside: End])[] = [
    ['pod', 'cluster IP', 'all', 'all', 'local'],
    // Under Local policy pods are sent to all endpoints, as if they had come through the load balancer, without masquerading.
    ['pod', 'node port', 'all masqueraded', 'all', 'all masqueraded'],
    ['pod', 'load balancer', 'all masqueraded', 'all', 'all masqueraded'],
    ['node', 'cluster IP', 'all masqueraded', 'all masqueraded', 'local masqueraded'],
    // So is the node itself, masqueraded.
    ['node', 'node port', 'all masqueraded', 'all masqueraded', 'all masqueraded'],
    ['loopback', 'node port', 'all masqueraded', 'all masqueraded', 'all masqueraded'],
    ['node', 'load balancer', 'all masqueraded', 'all masqueraded', 'all masqueraded'],
    ['client', 'cluster IP', 'all masqueraded', 'all masqueraded', 'local masqueraded'],
    // For external clients, a Local policy uses endpoints of the node and masquerades no packet.
    ['client', 'node port', 'all masqueraded', 'local', 'all masqueraded'],
    ['client', 'load balancer', 'all masqueraded', 'local', 'all masqueraded'],
  ];

  const source: Readonly<Record<From, string>> = {pod, node, loopback, client};

  function packet(from: From, entry: Entry, shape: (typeof shapes)[number]): Sent {
    if (entry === 'cluster IP') return {from: source[from], to: shape.clusterIP, port: 80};
    if (entry === 'load balancer') return {from: source[from], to: shape.vip, port: 80};
    return {from: source[from], to: from === 'loopback' ? loopback : node, port: shape.nodePort};
  }

  function wanted(end: End, index: number): string {
    const list = end.startsWith('local') ? `10.244.11.${index}:8080` : `10.244.11.${index}:8080, 10.244.22.${index}:8080`;
    return end.endsWith('masqueraded') ? masqueraded(list) : list;
  }

  interface Config {
    readonly title: string;
    readonly config: Setup['config'];
    /** What is other than in the table above. */
    readonly change: (from: From, entry: Entry, shape: string, end: End) => End;
  }

  const configs: readonly Config[] = [
    {title: 'with a pod network', config: {}, change: (_from, _entry, _shape, end) => end},
    {
      title: 'without a pod network, all traffic to a cluster IP counts as that of pods, and pods have no bypass',
      config: {clusterCIDRs: []},
      change: (from, entry, shape, end) => {
        if (entry === 'cluster IP') return end.startsWith('all') ? 'all' : 'local';
        return from === 'pod' && shape === 'outside' ? 'local' : end;
      },
    },
    {
      title: 'with masqueradeAll, all traffic to a cluster IP is masqueraded',
      config: {masqueradeAll: true},
      change: (_from, entry, _shape, end) =>
        entry !== 'cluster IP' ? end : end.startsWith('all') ? 'all masqueraded' : 'local masqueraded',
    },
    {
      title: 'with masqueradeAll and without a pod network',
      config: {masqueradeAll: true, clusterCIDRs: []},
      change: (from, entry, shape, end) => {
        if (entry === 'cluster IP') return end.startsWith('all') ? 'all masqueraded' : 'local masqueraded';
        return from === 'pod' && shape === 'outside' ? 'local' : end;
      },
    },
  ];

  describe.each(configs)('$title', ({config, change}) => {
    const rules = expectedOf({services, slices, config});

    test.each(rows)('%s to %s', (from, entry, ...ends) => {
      for (const [index, shape] of shapes.entries()) {
        const end = change(from, entry, shape.name, ends[index] ?? 'all');
        expect(flow(rules, packet(from, entry, shape)), shape.name).toBe(wanted(end, index));
      }
    });
  });
});

describe('without endpoints (TestNoEndpointsReject)', () => {
  const rules = cluster(balancer, [], {ingress});

  test.each([
    ['a pod to the cluster IP', {from: pod, ...toCluster}],
    ['a client to the external IP', {from: client, ...toExternal}],
    ['a pod to the node port', {from: pod, ...toNode}],
    ['a client to the node port', {from: client, ...toNode}],
    ['a pod to the load balancer', {from: pod, ...toBalancer}],
    ['a client to the load balancer', {from: client, ...toBalancer}],
    ['the node to the cluster IP', {from: node, ...toCluster}],
    ['the node to its node port', {from: node, ...toNode}],
    ['loopback to the node port', {from: loopback, to: loopback, port: 30080}],
  ])('%s is rejected', (_, sent) => {
    expect(flow(rules, sent)).toBe('REJECT');
  });

  test('the node’s own packets to an external IP leave it: OUTPUT does not match them (section 2.1)', () => {
    expect(flow(rules, {from: node, ...toExternal})).toBe('passes');
  });
});

describe('cluster IPs (TestClusterIPGeneral)', () => {
  const rules = expectedOf({
    services: [
      service('ns1/svc1', {clusterIP: '10.96.0.41', ports: [port]}),
      service('ns2/svc2', {
        clusterIP: '10.96.0.42',
        ports: [
          port,
          {name: 'https', port: 443, protocol: 'TCP'},
          {name: 'dns-udp', port: 53, protocol: 'UDP'},
          {name: 'dns-tcp', port: 53, protocol: 'TCP'},
          {name: 'dns-sctp', port: 53, protocol: 'SCTP'},
        ],
      }),
    ],
    slices: [
      slice('ns1/svc1', [here], {ports: [{name: 'http', port: 80}]}),
      slice('ns2/svc2', [here, there], {
        ports: [
          {name: 'http', port: 80},
          {name: 'https', port: 8443},
          {name: 'dns-udp', port: 53, protocol: 'UDP'},
          {name: 'dns-tcp', port: 5353},
          {name: 'dns-sctp', port: 53, protocol: 'SCTP'},
        ],
      }),
    ],
  });

  test.each<readonly [string, Sent, string]>([
    ['a Service with one endpoint', {from: pod, to: '10.96.0.41', port: 80}, '10.244.1.5:80'],
    ['a pod to itself is masqueraded', {from: '10.244.1.5', to: '10.96.0.41', port: 80}, '10.244.1.5:80 masqueraded'],
    ['a pod to itself or another', {from: '10.244.1.5', to: '10.96.0.42', port: 80}, '10.244.1.5:80 masqueraded, 10.244.2.7:80'],
    ['a Service with several endpoints', {from: pod, to: '10.96.0.42', port: 80}, '10.244.1.5:80, 10.244.2.7:80'],
    ['a Service with another target port', {from: pod, to: '10.96.0.42', port: 443}, '10.244.1.5:8443, 10.244.2.7:8443'],
    ['one port number over TCP', {from: pod, to: '10.96.0.42', port: 53, protocol: 'tcp'}, '10.244.1.5:5353, 10.244.2.7:5353'],
    ['the same port number over UDP', {from: pod, to: '10.96.0.42', port: 53, protocol: 'udp'}, '10.244.1.5:53, 10.244.2.7:53'],
    ['the same port number over SCTP', {from: pod, to: '10.96.0.42', port: 53, protocol: 'sctp'}, '10.244.1.5:53, 10.244.2.7:53'],
    ['UDP to a TCP port', {from: pod, to: '10.96.0.42', port: 80, protocol: 'udp'}, 'passes'],
    ['one Service at the port of another', {from: pod, to: '10.96.0.41', port: 443}, 'passes'],
    ['an address without a Service', {from: pod, to: '10.244.2.99', port: 80}, 'passes'],
  ])('%s', (_, sent, end) => {
    expect(flow(rules, sent)).toBe(end);
  });

  test('each endpoint has its share', () => {
    const many = Array.from({length: 7}, (_, index) => endpoint(`10.244.3.${index}`));
    const shares = outcomes(cluster({}, many), {from: pod, ...toCluster}).map(({probability}) => probability);
    expect(shares).toHaveLength(7);
    for (const share of shares) expect(share).toBeCloseTo(1 / 7, 6);
  });

  test('the path contains every rule', () => {
    const [only] = outcomes(rules, {from: client, to: '10.96.0.41', port: 80});
    expect(only?.path.map(({chain}) => chain.replace(/-[A-Z2-7]{16}$/, ''))).toEqual([
      'PREROUTING',
      'KUBE-SERVICES',
      'KUBE-SVC',
      'KUBE-MARK-MASQ',
      'KUBE-SVC',
      'KUBE-SEP',
      'FORWARD',
      'FORWARD',
      'KUBE-FORWARD',
      'POSTROUTING',
      'KUBE-POSTROUTING',
      'KUBE-POSTROUTING',
    ]);
  });
});

describe('source ranges (TestLoadBalancer)', () => {
  const ranges = {...balancer, loadBalancerSourceRanges: ['192.168.1.0/24', ' 203.0.113.0/25']};
  const two = [...ingress, {ip: '198.51.100.17'}];
  const rules = cluster(ranges, [here], {ingress: two});
  const arrives = masqueraded(local);

  test.each<readonly [string, Sent, string]>([
    ['a pod to the cluster IP', {from: pod, ...toCluster}, local],
    ['a client to the node port', {from: client, ...toNode}, arrives],
    ['an external client to the node port, which has no ranges', {from: externalClient, ...toNode}, arrives],
    ['an external client to the external IP, which has no ranges', {from: externalClient, ...toExternal}, arrives],
    ['a client to the first address', {from: client, ...toBalancer}, arrives],
    ['a client to the second address', {from: client, to: '198.51.100.17', port: 80}, arrives],
    ['an external client to the first address', {from: externalClient, ...toBalancer}, 'DROP'],
    ['an external client to the second address', {from: externalClient, to: '198.51.100.17', port: 80}, 'DROP'],
    ['a pod to the first address', {from: pod, ...toBalancer}, 'DROP'],
    ['a pod to the second address', {from: pod, to: '198.51.100.17', port: 80}, 'DROP'],
    ['the node, which is in a range', {from: node, ...toBalancer}, arrives],
    ['the node with the load-balancer address as its own', {from: '198.51.100.7', ...toBalancer}, arrives],
    ['the node with the second address as its own', {from: '198.51.100.17', to: '198.51.100.17', port: 80}, arrives],
  ])('%s', (_, sent, end) => {
    expect(flow(rules, sent)).toBe(end);
  });

  test('the node, if no range contains it', () => {
    const closed = cluster({...ranges, loadBalancerSourceRanges: ['203.0.113.0/25']}, [here], {ingress});
    expect(flow(closed, {from: node, ...toBalancer})).toBe('DROP');
    expect(flow(closed, {from: '198.51.100.7', ...toBalancer})).toBe('DROP');
  });

  test('before 1.25 are enforced by a mark, which the kubelet turns into a DROP', () => {
    const old = cluster(ranges, [here], {ingress, version: '1.23'});
    expect(flow(old, {from: client, ...toBalancer})).toBe(arrives);
    expect(flow(old, {from: externalClient, ...toBalancer})).toBe('DROP');
  });
});

describe('node ports (TestNodePorts)', () => {
  const six: ServiceSpec = {clusterIP: 'fd00:96::1', ports: [{...port, nodePort: 30080}]};
  const four: ServiceSpec = {ports: [{...port, nodePort: 30080}]};
  const cases = [
    {title: 'on all addresses', family: 'IPv4', config: {}, onLoopback: true, onOther: true},
    {title: 'not on loopback', family: 'IPv4', config: {localhostNodePorts: false}, onLoopback: false, onOther: true},
    {
      title: 'not on loopback, though it is among the networks',
      family: 'IPv4',
      config: {localhostNodePorts: false, nodePortAddresses: ['192.168.1.0/24', '127.0.0.1/32']},
      onLoopback: false,
      onOther: false,
    },
    {
      title: 'on loopback among the networks',
      family: 'IPv4',
      config: {nodePortAddresses: ['192.168.1.0/24', '127.0.0.1/32']},
      onLoopback: true,
      onOther: false,
    },
    {
      title: 'on several networks',
      family: 'IPv4',
      config: {nodePortAddresses: ['192.168.1.0/24', '10.9.9.0/24', 'fd00:192::/64']},
      onLoopback: false,
      onOther: true,
    },
    {title: 'in IPv6 everywhere except on loopback', family: 'IPv6', config: {}, onLoopback: false, onOther: true},
    {
      title: 'in IPv6 on one network',
      family: 'IPv6',
      config: {nodePortAddresses: ['192.168.1.0/24', 'fd00:192::/64']},
      onLoopback: false,
      onOther: false,
    },
  ] as const;

  test.each(cases)('$title', ({family, config, onLoopback, onOther}) => {
    const isSix = family === 'IPv6';
    const ends = isSix ? [endpoint('fd00:10:1::5', 'node-a'), endpoint('fd00:10:2::7', 'node-b')] : [here, there];
    const addresses = ['127.0.0.1', '::1', node, otherAddress, 'fd00:192::10', 'fd00:193::10'];
    const rules = cluster(isSix ? six : four, ends, {family, config, facts: {addresses}});
    const arrives = isSix ? '[fd00:10:1::5]:8080, [fd00:10:2::7]:8080' : both;
    const [podAddress, outside, own, other, lo, entry] = isSix
      ? ['fd00:10:1::c8', '2001:db8::9', 'fd00:192::10', 'fd00:193::10', '::1', 'fd00:96::1']
      : [pod, client, node, otherAddress, loopback, '10.96.1.1'];
    const setup = {local: [other]};
    expect(flow(rules, {from: podAddress, to: entry, port: 80}, setup)).toBe(arrives);
    expect(flow(rules, {from: outside, to: own, port: 30080}, setup)).toBe(masqueraded(arrives));
    expect(flow(rules, {from: own, to: own, port: 30080}, setup)).toBe(masqueraded(arrives));
    expect(flow(rules, {from: lo, to: lo, port: 30080}, setup)).toBe(onLoopback ? masqueraded(arrives) : 'passes');
    expect(flow(rules, {from: outside, to: other, port: 30080}, setup)).toBe(onOther ? masqueraded(arrives) : 'passes');
  });

  test('from another machine to a loopback address of the node is dropped, from the node itself not (KUBE-FIREWALL)', () => {
    const rules = cluster(four, [here]);
    expect(flow(rules, {from: client, to: '127.0.0.1', port: 9999})).toBe('DROP');
    expect(flow(rules, {from: loopback, to: '127.0.0.1', port: 9999})).toBe('passes');
    // What was rewritten is not a martian.
    expect(flow(rules, {from: client, to: '127.0.0.1', port: 30080})).toBe(masqueraded(local));
  });

  test('leave the health check port to the process that listens there', () => {
    const health = cluster({...balancer, externalTrafficPolicy: 'Local', healthCheckNodePort: 32100}, [], {ingress});
    expect(flow(health, {from: client, to: node, port: 32100})).toBe('passes');
    const [end] = outcomes(health, {from: client, to: node, port: 32100});
    expect(end?.path.at(-1)?.text).toContain('health check node port');
  });
});

describe('external policy (TestExternalTrafficPolicyLocal, -Cluster)', () => {
  const entries = [toExternal, toBalancer, toNode];

  test('Local: pods reach all endpoints, other clients those of the node, no packet is masqueraded', () => {
    const rules = cluster({...balancer, externalTrafficPolicy: 'Local', healthCheckNodePort: 32100}, [here, there], {ingress});
    expect(flow(rules, {from: pod, ...toCluster})).toBe(both);
    for (const entry of entries) {
      expect(flow(rules, {from: pod, ...entry})).toBe(both);
      expect(flow(rules, {from: client, ...entry})).toBe(local);
      expect(flow(rules, {from: node, ...entry})).toBe(masqueraded(both));
    }
  });

  test('Cluster: all clients reach all endpoints and are masqueraded, except pods at the cluster IP', () => {
    const rules = cluster({...balancer, externalTrafficPolicy: 'Cluster'}, [here, there], {ingress});
    expect(flow(rules, {from: pod, ...toCluster})).toBe(both);
    for (const entry of entries) for (const from of [pod, client, node]) expect(flow(rules, {from, ...entry})).toBe(masqueraded(both));
  });

  test('Local without an endpoint on the node: packets of other clients are dropped, those of pods and the node are not', () => {
    const rules = cluster({...balancer, externalTrafficPolicy: 'Local'}, [there], {ingress});
    for (const entry of entries) {
      expect(flow(rules, {from: client, ...entry})).toBe('DROP');
      expect(flow(rules, {from: pod, ...entry})).toBe(remote);
      expect(flow(rules, {from: node, ...entry})).toBe(masqueraded(remote));
    }
  });

  test('Local before 1.24, with and without an endpoint on the node', () => {
    for (const version of ['1.21', '1.22', '1.23']) {
      const local124 = {...balancer, externalTrafficPolicy: 'Local'};
      const rules = cluster(local124, [here, there], {ingress, version});
      for (const entry of entries) {
        expect(flow(rules, {from: pod, ...entry})).toBe(both);
        expect(flow(rules, {from: client, ...entry})).toBe(local);
      }
      expect(flow(rules, {from: node, ...toNode})).toBe(masqueraded(both));
      expect(flow(cluster(local124, [there], {ingress, version}), {from: client, ...toNode})).toBe('DROP');
    }
  });

  test('Cluster before 1.24', () => {
    for (const version of ['1.21', '1.22', '1.23']) {
      const rules = cluster(balancer, [here, there], {ingress, version});
      for (const entry of [toBalancer, toNode])
        for (const from of [pod, client, node]) expect(flow(rules, {from, ...entry})).toBe(masqueraded(both));
      // Pods are not masqueraded to an external IP in those days.
      expect(flow(rules, {from: client, ...toExternal})).toBe(masqueraded(both));
      expect(flow(rules, {from: pod, ...toExternal})).toBe(both);
      expect(flow(rules, {from: pod, ...toCluster})).toBe(both);
      expect(flow(rules, {from: client, ...toCluster})).toBe(masqueraded(both));
    }
  });
});

describe('internal policy (TestInternalTrafficPolicy)', () => {
  const second = endpoint('10.244.1.6', 'node-a');

  test.each([
    ['Cluster', [here, second, there], '10.244.1.5:8080, 10.244.1.6:8080, 10.244.2.7:8080'],
    ['Local', [here, there], local],
    ['Local', [here, second, there], '10.244.1.5:8080, 10.244.1.6:8080'],
    ['Local', [there], 'DROP'],
    ['Local', [], 'REJECT'],
  ])('%s', (internalTrafficPolicy, endpoints, end) => {
    expect(flow(cluster({internalTrafficPolicy}, endpoints), {from: pod, ...toCluster})).toBe(end);
  });
});

describe('terminating endpoints (TestTerminatingEndpointsTrafficPolicyLocal, -Cluster)', () => {
  const at = (number: number, nodeName: string, state = {}) => endpoint(`10.244.1.${number}`, nodeName, state);
  const ends = (...numbers: readonly number[]) => numbers.map(number => `10.244.1.${number}:8080`).join(', ');
  const policies = {Local: {...balancer, externalTrafficPolicy: 'Local'}, Cluster: balancer};

  const cases = [
    {
      title: 'some endpoints are ready',
      endpoints: [at(1, 'node-a'), at(2, 'node-a'), at(3, 'node-a', leaving), at(4, 'node-a', gone), at(5, 'node-b')],
      inside: ends(1, 2, 5),
      outside: {Local: ends(1, 2), Cluster: masqueraded(ends(1, 2, 5))},
    },
    {
      title: 'all endpoints of the node terminate',
      endpoints: [at(2, 'node-a', leaving), at(3, 'node-a', leaving), at(4, 'node-a', gone), at(5, 'node-b')],
      inside: ends(5),
      outside: {Local: ends(2, 3), Cluster: masqueraded(ends(5))},
    },
    {
      title: 'all endpoints terminate',
      endpoints: [at(2, 'node-a', leaving), at(3, 'node-b', leaving), at(4, 'node-b', gone)],
      inside: ends(2, 3),
      outside: {Local: ends(2), Cluster: masqueraded(ends(2, 3))},
    },
    {
      title: 'one endpoint terminates on another node',
      endpoints: [at(5, 'node-b', leaving)],
      inside: ends(5),
      outside: {Local: 'DROP', Cluster: masqueraded(ends(5))},
    },
    {
      title: 'no endpoint is usable',
      endpoints: [at(5, 'node-a', gone), at(6, 'node-b', gone)],
      inside: 'REJECT',
      outside: {Local: 'REJECT', Cluster: 'REJECT'},
    },
    {title: 'no endpoint is left', endpoints: [], inside: 'REJECT', outside: {Local: 'REJECT', Cluster: 'REJECT'}},
  ];

  test.each(cases)('$title', ({endpoints, inside, outside}) => {
    for (const policy of ['Local', 'Cluster'] as const) {
      const rules = cluster(policies[policy], endpoints, {ingress});
      expect(flow(rules, {from: pod, ...toCluster})).toBe(inside);
      expect(flow(rules, {from: client, ...toBalancer})).toBe(outside[policy]);
    }
  });
});

describe('affinity', () => {
  const rules = cluster({sessionAffinity: 'ClientIP'}, [here, there]);
  const chain = (hostPort: string) => {
    const [item] = rules.ports;
    const found = item?.endpoints.cluster.find(candidate => candidate.hostPort === hostPort);
    if (item === undefined || found === undefined) throw new Error('no such endpoint');
    return item.endpointChain(found);
  };

  test('the first packet of a client goes to any endpoint', () => {
    expect(flow(rules, {from: pod, ...toCluster})).toBe(both);
  });

  test('a known client returns to its endpoint', () => {
    expect(flow(rules, {from: pod, ...toCluster}, {knownTo: [chain(local)]})).toBe(local);
    expect(flow(rules, {from: pod, ...toCluster}, {knownTo: [chain(remote)]})).toBe(remote);
  });

  test('a client known to two returns to the first in the rules', () => {
    expect(flow(rules, {from: pod, ...toCluster}, {knownTo: [chain(remote), chain(local)]})).toBe(local);
  });
});

describe('the mark', () => {
  test.each([0, 5, 14, 31])('of bit %i masquerades', masqueradeBit => {
    const rules = cluster({}, [here], {config: {masqueradeBit}});
    expect(flow(rules, {from: client, ...toCluster})).toBe(masqueraded(local));
    expect(flow(rules, {from: pod, ...toCluster})).toBe(local);
  });

  test('that was set before masquerades too', () => {
    expect(flow(cluster({}, [here]), {from: pod, ...toCluster, mark: 0x4000})).toBe(masqueraded(local));
    expect(flow(cluster({}, [here]), {from: pod, ...toCluster, mark: 0x8000})).toBe(local);
  });
});

describe('pods detected by their interface', () => {
  const config: Setup['config'] = {detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: 'veth'};
  const rules = cluster({}, [here], {config});

  test('are masqueraded or not by their input interface', () => {
    expect(flow(rules, {from: pod, ...toCluster, inInterface: 'veth12'})).toBe(local);
    expect(flow(rules, {from: client, ...toCluster, inInterface: 'eth0'})).toBe(masqueraded(local));
  });

  test('are undecided if it is unknown, and the rule is named', () => {
    const [end] = outcomes(rules, {from: pod, ...toCluster});
    expect(end).toMatchObject({verdict: 'undecided', destination: null, probability: 1});
    expect(end?.reason).toContain('! -i veth+');
  });
});

describe('hooks', () => {
  test('a Service at an address of the node is delivered locally, without masquerading on arrival', () => {
    const rules = cluster({}, [endpoint(node, 'node-a')]);
    expect(flow(rules, {from: client, ...toCluster})).toBe(`${node}:8080`);
    expect(flow(rules, {from: pod, ...toCluster})).toBe(`${node}:8080`);
  });

  test('the expected rules and the rules of a node are walked in the same way', () => {
    const setup: Setup = {
      services: [service('shop/web', {clusterIP: '10.96.1.1', ports: [port]})],
      slices: [slice('shop/web', [here, there], {ports})],
    };
    const [one, other] = [expectedOf(setup), expectedOf(setup)];
    expect(outcomes(one, {from: pod, ...toCluster})).toEqual(outcomes(other, {from: pod, ...toCluster}));
  });
});
