import {describe, expect, test} from 'vitest';
import {endpointSet, endpointSetOfEndpoints, possibleEndpoints, sliceOwner} from '../../../src/expect/cluster/endpoint-sets.ts';
import {servicePorts} from '../../../src/expect/cluster/cluster-view.ts';
import type {EndpointSliceObject, EndpointsObject, ServicePortSpec} from '../../../src/model/api-objects.ts';
import {podOf} from '../../../src/model/endpoint.ts';
import type {Family} from '../../../src/model/address.ts';
import type {ServicePort} from '../../../src/model/service-port.ts';
import {endpoint, leaving, service, slice} from '../../cluster.ts';
import {proxyVersion, version} from '../../kube-proxy.ts';

function portOf(spec: ServicePortSpec = {port: 80}, family: Family = 'IPv4'): ServicePort {
  const clusterIP = family === 'IPv4' ? '10.96.1.1' : 'fd00:96::1';
  const [port] = servicePorts(service('shop/web', {clusterIP, ports: [spec]}), family, proxyVersion('1.36'));
  if (port === undefined) throw new Error('no Service port');
  return port;
}

const hostPorts = (slices: readonly EndpointSliceObject[], minor = '1.36', port = portOf()) =>
  endpointSet(port, slices, version(minor)).endpoints.map(({hostPort}) => hostPort);

describe('a slice (section 4.2)', () => {
  const of = (labels: Readonly<Record<string, string>>, minor: string) =>
    sliceOwner({metadata: {name: 's', namespace: 'shop', labels}}, version(minor));

  test('belongs to the Service in its label, in its namespace', () => {
    expect(of({'kubernetes.io/service-name': 'web'}, '1.36')).toBe('shop/web');
    expect(sliceOwner({metadata: {name: 's', labels: {'kubernetes.io/service-name': 'web'}}}, version('1.36'))).toBe('default/web');
  });

  test('without that label belongs to none', () => {
    expect(of({}, '1.36')).toBeNull();
    expect(of({'kubernetes.io/service-name': ''}, '1.36')).toBeNull();
    expect(sliceOwner({metadata: {name: 's'}}, version('1.36'))).toBeNull();
  });

  test('of a headless Service is not used', () => {
    for (const minor of ['1.23', '1.36'])
      expect(of({'kubernetes.io/service-name': 'web', 'service.kubernetes.io/headless': ''}, minor)).toBeNull();
  });

  test('that is assigned to another proxy is not used up to 1.35', () => {
    const labels = {'kubernetes.io/service-name': 'web', 'service.kubernetes.io/service-proxy-name': 'x'};
    expect(of(labels, '1.35')).toBeNull();
    expect(of(labels, '1.36')).toBe('shop/web');
  });

  test('of a mirror is used like any other', () => {
    expect(
      of(
        {'kubernetes.io/service-name': 'web', 'endpointslice.kubernetes.io/managed-by': 'endpointslicemirroring-controller.k8s.io'},
        '1.36',
      ),
    ).toBe('shop/web');
  });
});

describe('the ports of a slice (section 4.3)', () => {
  const one = [endpoint('10.244.1.5')];

  test('are matched by name and protocol, and their number is the one used', () => {
    const dns = portOf({name: 'dns', port: 53, protocol: 'UDP', targetPort: 'anything'});
    const ports = [
      {name: 'dns', port: 5353, protocol: 'UDP'},
      {name: 'dns', port: 5354, protocol: 'TCP'},
      {name: 'dns-tcp', port: 5355, protocol: 'UDP'},
    ];
    expect(hostPorts([slice('shop/web', one, {ports})], '1.36', dns)).toEqual(['10.244.1.5:5353']);
  });

  test('with an empty name are those of the unnamed port', () => {
    expect(hostPorts([slice('shop/web', one, {ports: [{name: '', port: 8080, protocol: 'TCP'}]})])).toEqual(['10.244.1.5:8080']);
  });

  test('without a protocol are TCP', () => {
    expect(hostPorts([slice('shop/web', one, {ports: [{name: '', port: 8080}]})])).toEqual(['10.244.1.5:8080']);
  });

  test.each([
    ['no name', {port: 8080, protocol: 'TCP'}],
    ['a null name', {name: null, port: 8080, protocol: 'TCP'}],
    ['no number', {name: '', protocol: 'TCP'}],
    ['a null number', {name: '', port: null, protocol: 'TCP'}],
    ['number 0', {name: '', port: 0, protocol: 'TCP'}],
    ['another name', {name: 'http', port: 8080, protocol: 'TCP'}],
    ['another protocol', {name: '', port: 8080, protocol: 'UDP'}],
  ])('with %s give nothing', (_, port) => {
    expect(hostPorts([slice('shop/web', one, {ports: [port]})])).toEqual([]);
  });

  test('that are missing give nothing', () => {
    expect(hostPorts([slice('shop/web', one, {ports: null})])).toEqual([]);
    expect(hostPorts([slice('shop/web', one, {ports: []})])).toEqual([]);
  });

  test('may differ from slice to slice, so one address can have two ports', () => {
    const two = [
      slice('shop/web', one, {ports: [{name: '', port: 8080}]}),
      slice('shop/web', [...one, endpoint('10.244.1.6')], {name: 'web-2', ports: [{name: '', port: 9090}]}),
    ];
    expect(hostPorts(two)).toEqual(['10.244.1.5:8080', '10.244.1.5:9090', '10.244.1.6:9090']);
  });
});

describe('the endpoints of a slice (section 4.4)', () => {
  test('belong to the family', () => {
    const both = [slice('shop/web', [endpoint('10.244.1.5')]), slice('shop/web', [endpoint('fd00:10::5')], {name: 'web-6'})];
    expect(hostPorts(both)).toEqual(['10.244.1.5:8080']);
    expect(hostPorts(both, '1.36', portOf({port: 80}, 'IPv6'))).toEqual(['[fd00:10::5]:8080']);
    expect(hostPorts([slice('shop/web', [endpoint('db.example.org')], {addressType: 'FQDN'})])).toEqual([]);
  });

  test('have one address, the first, and an endpoint without an address is skipped', () => {
    expect(hostPorts([slice('shop/web', [{addresses: ['10.244.1.5', '10.244.1.6']}, {addresses: []}, {}])])).toEqual(['10.244.1.5:8080']);
    expect(hostPorts([slice('shop/web', [{addresses: ['nonsense']}, endpoint('10.244.1.5')])])).toEqual(['10.244.1.5:8080']);
  });

  test('may be missing', () => {
    expect(hostPorts([{...slice('shop/web', []), endpoints: null}])).toEqual([]);
  });

  test('are sorted as text, byte by byte', () => {
    const list = ['10.0.0.2', '10.0.0.10', '9.9.9.9', '10.0.0.1'].map(address => endpoint(address));
    expect(hostPorts([slice('shop/web', list)])).toEqual(['10.0.0.10:8080', '10.0.0.1:8080', '10.0.0.2:8080', '9.9.9.9:8080']);
  });

  test('have conditions that default to ready and serving, not terminating', () => {
    const list = [
      {addresses: ['10.0.0.1']},
      {addresses: ['10.0.0.2'], conditions: {ready: null, serving: null, terminating: null}},
      {addresses: ['10.0.0.3'], conditions: {ready: false, terminating: true}},
      {addresses: ['10.0.0.4'], conditions: {ready: true, serving: false, terminating: true}},
    ];
    const {endpoints} = endpointSet(portOf(), [slice('shop/web', list)], version('1.36'));
    expect(endpoints.map(({ready, serving, terminating}) => [ready, serving, terminating])).toEqual([
      [true, true, false],
      [true, true, false],
      [false, true, true],
      [true, false, true],
    ]);
  });

  test('have their node, pod, slice and hints; an empty list of hints is none', () => {
    const list = [
      {
        ...endpoint('10.0.0.1', 'node-a', {zones: ['zone-1', 'zone-2'], nodes: ['node-a']}),
        targetRef: {kind: 'Pod', name: 'web-1', namespace: 'shop'},
      },
      {...endpoint('10.0.0.2', undefined, {zones: [], nodes: []}), targetRef: {kind: 'Node', name: 'n'}},
    ];
    const {endpoints} = endpointSet(portOf(), [slice('shop/web', list)], version('1.36'));
    expect(endpoints.map(podOf)).toEqual(['shop/web-1', null]);
    expect(endpoints).toMatchObject([
      {nodeName: 'node-a', slice: 'web-1', zoneHints: ['zone-1', 'zone-2'], nodeHints: ['node-a']},
      {nodeName: null, zoneHints: null, nodeHints: null},
    ]);
  });

  test('have the spelling of the slice up to 1.30, canonical form from 1.31', () => {
    const written = [slice('shop/web', [endpoint('FD00:10:0::0005')])];
    const six = portOf({port: 80}, 'IPv6');
    expect(hostPorts(written, '1.30', six)).toEqual(['[FD00:10:0::0005]:8080']);
    expect(hostPorts(written, '1.31', six)).toEqual(['[fd00:10::5]:8080']);
    expect(hostPorts([slice('shop/web', [endpoint('010.000.000.005')])], '1.31')).toEqual(['10.0.0.5:8080']);
  });
});

describe('duplicate endpoints', () => {
  const set = (slices: readonly EndpointSliceObject[], minor: string) => endpointSet(portOf(), slices, version(minor));
  const possible = (slices: readonly EndpointSliceObject[], minor: string) => {
    const found = set(slices, minor);
    return possibleEndpoints(found, 'node-a', version(minor));
  };
  const nodes = (slices: readonly EndpointSliceObject[], minor: string) =>
    possible(slices, minor).map(list => list.map(({nodeName}) => nodeName));
  const states = (slices: readonly EndpointSliceObject[], minor: string) =>
    possible(slices, minor).map(list => list.map(({ready}) => ready));
  const inTwo = (one: ReturnType<typeof endpoint>, other: ReturnType<typeof endpoint>) => [
    slice('shop/web', [one]),
    slice('shop/web', [other], {name: 'web-2'}),
  ];
  const inOne = (...list: readonly ReturnType<typeof endpoint>[]) => [slice('shop/web', list)];
  const at = '10.0.0.1';

  test('that agree are one endpoint, and nothing is ambiguous', () => {
    const found = set(inTwo(endpoint(at, 'node-a'), endpoint(at, 'node-a')), '1.36');
    expect(found.endpoints).toHaveLength(1);
    expect(found.ambiguous.size).toBe(0);
  });

  test('in 1.36 the one that is not terminating wins, whatever the order of slices', () => {
    const [ready, ending] = [endpoint(at, 'node-b'), endpoint(at, 'node-a', leaving)];
    expect(states(inTwo(ready, ending), '1.36')).toEqual([[true]]);
    expect(states(inTwo(ending, ready), '1.36')).toEqual([[true]]);
  });

  test('up to 1.35 the one on this node wins, whatever the order of slices', () => {
    const [here, there] = [endpoint(at, 'node-a', leaving), endpoint(at, 'node-b')];
    for (const minor of ['1.23', '1.30', '1.35']) {
      expect(nodes(inTwo(here, there), minor)).toEqual([['node-a']]);
      expect(nodes(inTwo(there, here), minor)).toEqual([['node-a']]);
    }
  });

  test('in two slices, without a deciding difference, either may be used', () => {
    const both = [endpoint(at, 'node-a'), endpoint(at, 'node-b')] as const;
    expect(nodes(inTwo(...both), '1.36')).toEqual([['node-a'], ['node-b']]);
    expect(states(inTwo(endpoint(at, 'node-b'), endpoint(at, 'node-b', leaving)), '1.35')).toEqual([[true], [false]]);
  });

  test('in one slice, the order of the slice decides', () => {
    // Without a preferred one the first stays; else the last preferred one replaces it.
    expect(nodes(inOne(endpoint(at, 'node-b', leaving), endpoint(at, 'node-c', leaving)), '1.36')).toEqual([['node-b']]);
    expect(nodes(inOne(endpoint(at, 'node-b'), endpoint(at, 'node-c')), '1.36')).toEqual([['node-c']]);
    expect(nodes(inOne(endpoint(at, 'node-b'), endpoint(at, 'node-c', leaving)), '1.36')).toEqual([['node-b']]);
    expect(nodes(inOne(endpoint(at, 'node-b'), endpoint(at, 'node-c')), '1.35')).toEqual([['node-b']]);
    expect(states(inOne(endpoint(at, 'node-a'), endpoint(at, 'node-a', leaving)), '1.35')).toEqual([[false]]);
  });

  test('several of them give every combination, at most 64', () => {
    const pairs = (count: number) => [
      slice(
        'shop/web',
        Array.from({length: count}, (_, index) => endpoint(`10.0.0.${index}`, 'node-b')),
      ),
      slice(
        'shop/web',
        Array.from({length: count}, (_, index) => endpoint(`10.0.0.${index}`, 'node-c')),
        {name: 'web-2'},
      ),
    ];
    expect(nodes(pairs(2), '1.36').map(list => list.join(' '))).toEqual([
      'node-b node-b',
      'node-b node-c',
      'node-c node-b',
      'node-c node-c',
    ]);
    expect(nodes(pairs(10), '1.36')).toHaveLength(64);
  });

  test('in 1.21 are identified by their address alone, so that one of two ports is used, and which is ambiguous', () => {
    const two = [slice('shop/web', [endpoint(at)]), slice('shop/web', [endpoint(at)], {name: 'web-2', ports: [{name: '', port: 9090}]})];
    expect(set(two, '1.21').endpoints).toHaveLength(1);
    expect(possible(two, '1.21').map(list => list.map(({hostPort}) => hostPort))).toEqual([['10.0.0.1:8080'], ['10.0.0.1:9090']]);
    expect(set(two, '1.22').endpoints).toHaveLength(2);
  });
});

describe('an Endpoints object, as 1.21 reads it if configured to', () => {
  const object: EndpointsObject = {
    metadata: {name: 'web', namespace: 'shop'},
    subsets: [
      {
        addresses: [
          {ip: '10.0.0.9', nodeName: 'node-a', targetRef: {kind: 'Pod', name: 'web-1', namespace: 'shop'}},
          {ip: '10.0.0.10'},
          {ip: 'fd00::1'},
        ],
        ports: [
          {name: 'http', port: 8080, protocol: 'TCP'},
          {name: 'https', port: 8443, protocol: 'TCP'},
        ],
      },
      {addresses: [{ip: '10.0.0.1'}], ports: [{name: 'http', port: 9090}]},
      {ports: [{name: 'http', port: 1}]},
      {addresses: [{ip: '10.0.0.77'}], ports: [{name: 'metrics', port: 9100}]},
    ],
  };
  const http = portOf({name: 'http', port: 80});

  test('gives its ready addresses of the family, in its own order', () => {
    expect(endpointSetOfEndpoints(http, object).endpoints.map(({hostPort, nodeName}) => [hostPort, nodeName])).toEqual([
      ['10.0.0.9:8080', 'node-a'],
      ['10.0.0.10:8080', null],
      ['10.0.0.1:9090', null],
    ]);
  });

  test('has an unnamed port without a name', () => {
    const unnamed = {metadata: object.metadata, subsets: [{addresses: [{ip: '10.0.0.1'}], ports: [{port: 8080}]}]};
    expect(endpointSetOfEndpoints(portOf(), unnamed).endpoints.map(({hostPort}) => hostPort)).toEqual(['10.0.0.1:8080']);
  });

  test('that does not exist gives nothing', () => {
    expect(endpointSetOfEndpoints(http, undefined).endpoints).toEqual([]);
    expect(endpointSetOfEndpoints(http, {metadata: object.metadata, subsets: null}).endpoints).toEqual([]);
  });
});
