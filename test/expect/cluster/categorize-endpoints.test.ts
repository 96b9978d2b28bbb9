import {describe, expect, test} from 'vitest';
import {categorizeEndpoints, topologyMode} from '../../../src/expect/cluster/categorize-endpoints.ts';
import {endpointSet} from '../../../src/expect/cluster/endpoint-sets.ts';
import {servicePorts} from '../../../src/expect/cluster/cluster-view.ts';
import type {ServiceSpec, SliceEndpoint} from '../../../src/model/api-objects.ts';
import type {Endpoint} from '../../../src/model/endpoint.ts';
import {endpoint, gone, leaving, service, slice} from '../../cluster.ts';
import {proxyVersion} from '../../kube-proxy.ts';

type Gates = Readonly<Record<string, boolean>>;

interface Case {
  readonly version?: string;
  readonly gates?: Gates;
  readonly spec?: ServiceSpec;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly zone?: string | null;
  readonly endpoints: readonly SliceEndpoint[];
}

/** The last numbers of the addresses that are used on node-a, in zone-1. */
function categorized({endpoints, ...setup}: Case) {
  const {version = '1.36', gates = {}, spec = {}, annotations = {}, zone = 'zone-1'} = setup;
  const proxy = proxyVersion(version, gates);
  const object = service('shop/web', {clusterIP: '10.96.1.1', ports: [{port: 80}], ...spec}, {metadata: {annotations}});
  const [port] = servicePorts(object, 'IPv4', proxy);
  if (port === undefined) throw new Error('no Service port');
  const set = endpointSet(port, [slice('shop/web', endpoints)], proxy.version).endpoints;
  const node = {nodeName: 'node-a', zone, labels: {}, proxy};
  const {cluster, local, reachable, hasAny} = categorizeEndpoints(port, set, node);
  return {cluster: numbers(cluster), local: numbers(local), reachable: numbers(reachable), hasAny, mode: topologyMode(port, set, node)};
}

const numbers = (endpoints: readonly Endpoint[]) => endpoints.map(({address}) => Number(address.split('.')[3])).sort();
const at = (number: number, node: string, setup = {}) => endpoint(`10.0.0.${number}`, node, setup);

const localIn: ServiceSpec = {internalTrafficPolicy: 'Local'};
const nodePort: ServiceSpec = {type: 'NodePort', ports: [{port: 80, nodePort: 30080}]};
const localOut: ServiceSpec = {...nodePort, externalTrafficPolicy: 'Local'};

describe('ready, serving and terminating (section 4.5)', () => {
  test('without endpoints the result is empty', () => {
    expect(categorized({endpoints: []})).toMatchObject({cluster: [], local: [], reachable: [], hasAny: false});
  });

  test('ready endpoints are used, others are not', () => {
    const endpoints = [at(1, 'node-a'), at(2, 'node-b', {ready: false}), at(3, 'node-b', leaving), at(4, 'node-b', gone)];
    expect(categorized({endpoints})).toMatchObject({cluster: [1], local: [], reachable: [1], hasAny: true});
  });

  test('without a ready endpoint, those that serve while terminating are used', () => {
    const endpoints = [at(1, 'node-a', leaving), at(2, 'node-b', leaving), at(3, 'node-b', gone), at(4, 'node-b', {ready: false})];
    expect(categorized({endpoints})).toMatchObject({cluster: [1, 2], reachable: [1, 2], hasAny: true});
  });

  test('an endpoint that is not ready, though it serves and does not terminate, is not used', () => {
    const endpoints = [at(1, 'node-a', {ready: false, serving: true})];
    expect(categorized({endpoints})).toMatchObject({cluster: [], hasAny: false});
    expect(categorized({endpoints, spec: localOut})).toMatchObject({cluster: [], local: [], hasAny: false});
  });

  test('a terminating endpoint without the serving condition counts as serving', () => {
    expect(categorized({endpoints: [at(1, 'node-a', {ready: false, terminating: true})]})).toMatchObject({cluster: [1], hasAny: true});
  });

  test('a terminating endpoint that is ready (publishNotReadyAddresses) counts as ready, whatever its serving condition', () => {
    const endpoints = [at(1, 'node-a', {ready: true, serving: false, terminating: true}), at(2, 'node-a', leaving)];
    expect(categorized({endpoints})).toMatchObject({cluster: [1]});
  });
});

describe('endpoints of the node', () => {
  const endpoints = [at(1, 'node-a'), at(2, 'node-b'), at(3, 'node-a', leaving)];

  test('matter only if a policy is Local', () => {
    expect(categorized({endpoints, spec: nodePort})).toMatchObject({cluster: [1, 2], local: [], reachable: [1, 2]});
    expect(categorized({endpoints, spec: localOut})).toMatchObject({cluster: [1, 2], local: [1], reachable: [1, 2]});
    expect(categorized({endpoints, spec: {...nodePort, ...localIn}})).toMatchObject({cluster: [1, 2], local: [1], reachable: [1, 2]});
  });

  test('are the only ones under internal policy Local without an external entry', () => {
    expect(categorized({endpoints, spec: localIn})).toMatchObject({cluster: [], local: [1], reachable: [1], hasAny: true});
    expect(categorized({endpoints: [at(2, 'node-b')], spec: localIn})).toMatchObject({local: [], reachable: [], hasAny: true});
  });

  test('that terminate are used if the node has no ready one, and get their chains', () => {
    const leavingHere = [at(1, 'node-a', leaving), at(2, 'node-b')];
    expect(categorized({endpoints: leavingHere, spec: localOut})).toMatchObject({
      cluster: [2],
      local: [1],
      reachable: [1, 2],
      hasAny: true,
    });
  });

  test('on another node, though terminating, keep the Service from being without endpoints', () => {
    expect(categorized({endpoints: [at(2, 'node-b', leaving)], spec: localIn})).toMatchObject({local: [], hasAny: true});
    expect(categorized({endpoints: [at(2, 'node-b', gone)], spec: localIn})).toMatchObject({local: [], hasAny: false});
  });

  test('are identified by nodeName, which an endpoint need not have', () => {
    expect(categorized({endpoints: [endpoint('10.0.0.1')], spec: localOut})).toMatchObject({cluster: [1], local: []});
    expect(categorized({endpoints: [at(1, 'Node-A')], spec: localOut})).toMatchObject({local: []});
  });
});

describe('terminating endpoints by version and gate (section 4.6)', () => {
  const endpoints = [at(1, 'node-a', leaving), at(2, 'node-b', leaving)];

  test.each<readonly [string, Gates, boolean]>([
    ['1.25', {}, false],
    ['1.25', {ProxyTerminatingEndpoints: true}, true],
    ['1.26', {}, true],
    ['1.26', {ProxyTerminatingEndpoints: false}, false],
    ['1.27', {ProxyTerminatingEndpoints: false}, false],
    ['1.28', {}, true],
    ['1.36', {ProxyTerminatingEndpoints: false}, true],
  ])('%s %j uses them: %s', (version, gates, used) => {
    expect(categorized({version, gates, endpoints})).toMatchObject({cluster: used ? [1, 2] : [], hasAny: used});
    expect(categorized({version, gates, endpoints, spec: localOut})).toMatchObject({local: used ? [1] : [], hasAny: used});
  });

  test('before 1.24 they are used only on the node, with the gate on', () => {
    expect(categorized({version: '1.23', endpoints})).toMatchObject({cluster: [], local: [], hasAny: false});
    expect(categorized({version: '1.23', endpoints, spec: localOut})).toMatchObject({cluster: [], local: [], hasAny: false});
    const gates = {ProxyTerminatingEndpoints: true};
    expect(categorized({version: '1.23', gates, endpoints})).toMatchObject({cluster: [], hasAny: false});
    expect(categorized({version: '1.23', gates, endpoints, spec: localOut})).toMatchObject({cluster: [], local: [1], hasAny: true});
    // One that terminates anywhere makes such a Service one with endpoints.
    expect(categorized({version: '1.23', gates, endpoints: [at(2, 'node-b', leaving)], spec: localOut})).toMatchObject({
      local: [],
      hasAny: true,
    });
    expect(categorized({version: '1.23', gates, endpoints: [at(2, 'node-b', leaving), at(3, 'node-b', gone)], spec: localOut}).hasAny).toBe(
      true,
    );
    expect(categorized({version: '1.21', gates, endpoints, spec: localOut})).toMatchObject({local: [], hasAny: false});
  });
});

describe('before 1.24', () => {
  const endpoints = [at(1, 'node-a'), at(2, 'node-b'), at(3, 'node-a', {ready: false})];

  test('ready endpoints are used, those of the node under Local policy', () => {
    for (const version of ['1.21', '1.22', '1.23']) {
      expect(categorized({version, endpoints, spec: nodePort})).toMatchObject({
        cluster: [1, 2],
        local: [],
        reachable: [1, 2],
        hasAny: true,
      });
      expect(categorized({version, endpoints, spec: localOut})).toMatchObject({
        cluster: [1, 2],
        local: [1],
        reachable: [1, 2],
        hasAny: true,
      });
    }
  });

  test('internal policy Local leaves only those of the node, unless the external policy is Local', () => {
    for (const version of ['1.22', '1.23']) {
      expect(categorized({version, endpoints, spec: {...nodePort, ...localIn}})).toMatchObject({
        cluster: [1],
        reachable: [1],
        hasAny: true,
      });
      expect(categorized({version, endpoints: [at(2, 'node-b')], spec: localIn})).toMatchObject({cluster: [], hasAny: false});
      expect(categorized({version, endpoints, spec: {...localOut, ...localIn}})).toMatchObject({cluster: [1, 2], local: [1]});
    }
    expect(categorized({version: '1.21', endpoints, spec: localIn})).toMatchObject({cluster: [1, 2]});
    expect(categorized({version: '1.21', gates: {ServiceInternalTrafficPolicy: true}, endpoints, spec: localIn})).toMatchObject({
      cluster: [1],
    });
  });
});

describe('hints (sections 4.5 and 4.6)', () => {
  const zoned = [
    at(1, 'node-a', {zones: ['zone-1']}),
    at(2, 'node-b', {zones: ['zone-2']}),
    at(3, 'node-c', {zones: ['zone-1', 'zone-2']}),
  ];
  const noded = [at(1, 'node-a', {zones: ['zone-1'], nodes: ['node-a']}), at(2, 'node-b', {zones: ['zone-1'], nodes: ['node-b']})];

  test('that name the zone of the node select the endpoints of that zone', () => {
    expect(categorized({endpoints: zoned})).toMatchObject({mode: 'PreferSameZone', cluster: [1, 3], reachable: [1, 3], hasAny: true});
    expect(categorized({endpoints: zoned, zone: 'zone-2'})).toMatchObject({cluster: [2, 3]});
  });

  test('are ignored if the node has no zone, or no endpoint is for it', () => {
    expect(categorized({endpoints: zoned, zone: null})).toMatchObject({mode: null, cluster: [1, 2, 3]});
    expect(categorized({endpoints: zoned, zone: ''})).toMatchObject({mode: null, cluster: [1, 2, 3]});
    expect(categorized({endpoints: zoned, zone: 'zone-3'})).toMatchObject({mode: null, cluster: [1, 2, 3]});
  });

  test('are ignored if one ready endpoint has no hint', () => {
    expect(categorized({endpoints: [...zoned, at(4, 'node-b')]})).toMatchObject({mode: null, cluster: [1, 2, 3, 4]});
  });

  test('of endpoints that are not ready are ignored, whether present or missing', () => {
    expect(categorized({endpoints: [...zoned, at(4, 'node-b', leaving)]})).toMatchObject({mode: 'PreferSameZone', cluster: [1, 3]});
    const onlyThere = [at(1, 'node-b', {zones: ['zone-2']}), at(2, 'node-a', {...gone, zones: ['zone-1']})];
    expect(categorized({endpoints: onlyThere})).toMatchObject({mode: null, cluster: [1]});
  });

  test('do not apply to terminating endpoints, the last resort', () => {
    const all = [at(1, 'node-a', {...leaving, zones: ['zone-1']}), at(2, 'node-b', {...leaving, zones: ['zone-2']})];
    expect(categorized({endpoints: all})).toMatchObject({mode: null, cluster: [1, 2]});
  });

  test('that name the node override those that name its zone', () => {
    expect(categorized({endpoints: noded})).toMatchObject({mode: 'PreferSameNode', cluster: [1]});
    const elsewhere = noded.map(item => ({...item, hints: {...item.hints, forNodes: [{name: 'node-b'}]}}));
    expect(categorized({endpoints: elsewhere})).toMatchObject({mode: 'PreferSameZone', cluster: [1, 2]});
    expect(categorized({endpoints: [...noded, at(3, 'node-c', {zones: ['zone-2']})]})).toMatchObject({
      mode: 'PreferSameZone',
      cluster: [1, 2],
    });
  });

  test.each<readonly [string, Gates, string | null]>([
    ['1.32', {}, 'PreferSameZone'],
    ['1.33', {}, 'PreferSameZone'],
    ['1.33', {PreferSameTrafficDistribution: true}, 'PreferSameNode'],
    ['1.34', {}, 'PreferSameNode'],
    ['1.34', {PreferSameTrafficDistribution: false}, 'PreferSameZone'],
    ['1.35', {PreferSameTrafficDistribution: false}, 'PreferSameNode'],
  ])('that name nodes are used by %s %j: %s', (version, gates, mode) => {
    expect(categorized({version, gates, endpoints: noded}).mode).toBe(mode);
  });

  test('apply to the cluster-wide endpoints of a Local Service, not to those of the node', () => {
    const endpoints = [at(1, 'node-a', {zones: ['zone-2']}), at(2, 'node-b', {zones: ['zone-1']})];
    expect(categorized({endpoints, spec: localOut})).toMatchObject({cluster: [2], local: [1], reachable: [1, 2]});
  });

  test('do not apply under internal policy Local', () => {
    const endpoints = [at(1, 'node-a', {zones: ['zone-2']}), at(2, 'node-b', {zones: ['zone-1']})];
    expect(categorized({endpoints, spec: localIn})).toMatchObject({cluster: [], local: [1], reachable: [1]});
  });

  test('need an annotation if the version requires one', () => {
    const auto = {'service.kubernetes.io/topology-aware-hints': 'Auto'};
    expect(categorized({version: '1.26', endpoints: zoned})).toMatchObject({cluster: [1, 2, 3]});
    expect(categorized({version: '1.26', endpoints: zoned, annotations: auto})).toMatchObject({cluster: [1, 3]});
    expect(categorized({version: '1.30', endpoints: zoned, annotations: {'service.kubernetes.io/topology-mode': 'Auto'}})).toMatchObject({
      cluster: [1, 3],
    });
    expect(categorized({version: '1.31', endpoints: zoned})).toMatchObject({cluster: [1, 3]});
  });

  test('before 1.24 do not apply if a policy is Local', () => {
    const gates = {TopologyAwareHints: true};
    const annotations = {'service.kubernetes.io/topology-aware-hints': 'Auto'};
    const of = (spec: ServiceSpec) => categorized({version: '1.23', gates, annotations, endpoints: zoned, spec}).cluster;
    expect(of(nodePort)).toEqual([1, 3]);
    expect(of(localOut)).toEqual([1, 2, 3]);
    expect(of(localIn)).toEqual([1]);
  });
});
