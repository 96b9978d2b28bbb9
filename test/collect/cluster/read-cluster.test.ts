import {afterEach, describe, expect, test} from 'vitest';
import {readAgentPods, readProxyPods} from '../../../src/collect/cluster/read-agent-pods.ts';
import {readCluster, readServicePods} from '../../../src/collect/cluster/read-cluster.ts';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import {ApiError, type KubeApi} from '../../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../../stand-in/api-server.ts';

const open: (ApiServer | KubeApi)[] = [];

afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

const service = (namespace: string, name: string, selector?: object) => ({
  metadata: {namespace, name},
  spec: {selector, ports: [{port: 80}]},
});
const slice = (namespace: string, name: string, of: string) => ({
  metadata: {namespace, name, labels: {'kubernetes.io/service-name': of}},
  addressType: 'IPv4',
  endpoints: [{addresses: ['10.0.0.1']}],
});
const pod = (namespace: string, name: string, {labels = {}, node = 'node-a'}: {labels?: object; node?: string} = {}) => ({
  metadata: {namespace, name, labels},
  spec: {nodeName: node, hostNetwork: true, containers: [{name: 'main'}]},
  status: {phase: 'Running'},
});

const objects = {
  services: [service('shop', 'web', {app: 'web'}), service('shop', 'cart'), service('other', 'web')],
  endpointslices: [
    slice('shop', 'web-1', 'web'),
    slice('shop', 'web-2', 'web'),
    slice('shop', 'cart-1', 'cart'),
    slice('other', 'web-1', 'web'),
  ],
  nodes: [{metadata: {name: 'node-a'}}, {metadata: {name: 'node-b'}}],
  pods: [
    pod('kube-system', 'kube-proxy-1', {labels: {'k8s-app': 'kube-proxy'}}),
    pod('kube-system', 'calico-node-1', {node: 'node-b', labels: {'k8s-app': 'calico-node'}}),
    pod('shop', 'web-1', {labels: {app: 'web'}}),
  ],
  servicecidrs: [{metadata: {name: 'kubernetes'}, spec: {cidrs: ['10.96.0.0/16']}}],
  configmaps: [{metadata: {namespace: 'kube-system', name: 'kube-proxy'}, data: {'config.conf': 'mode: iptables'}}],
};

async function served(options: ApiServerOptions = {}): Promise<{server: ApiServer; api: KubeApi}> {
  const server = await startApiServer({objects, ...options});
  open.push(server);
  const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig}), {backoff: 1});
  open.push(api);
  return {server, api};
}

const namesOf = (items: readonly {readonly metadata: {readonly namespace?: string; readonly name: string}}[] | null) =>
  items?.map(({metadata}) => `${metadata.namespace === undefined ? '' : `${metadata.namespace}/`}${metadata.name}`).sort();

describe('readCluster', () => {
  test('reads all Services, slices, Nodes, ServiceCIDRs and the ConfigMap of kube-proxy', async () => {
    const {api} = await served();
    const {api: read, problems} = await readCluster(api, {kind: 'cluster'});
    expect(problems).toEqual([]);
    expect(namesOf(read.services)).toEqual(['other/web', 'shop/cart', 'shop/web']);
    expect(namesOf(read.endpointSlices)).toHaveLength(4);
    expect(namesOf(read.nodes)).toEqual(['node-a', 'node-b']);
    expect(namesOf(read.configMaps)).toEqual(['kube-system/kube-proxy']);
    expect(namesOf(read.serviceCIDRs ?? null)).toEqual(['kubernetes']);
    expect(read.namespaces).toBeUndefined();
  });

  test('reads only one Service and its slices if only that was requested', async () => {
    const {api, server} = await served();
    const {api: read} = await readCluster(api, {kind: 'services', services: [{namespace: 'shop', name: 'web'}]});
    expect(namesOf(read.services)).toEqual(['shop/web']);
    expect(namesOf(read.endpointSlices)).toEqual(['shop/web-1', 'shop/web-2']);
    expect(read.namespaces).toEqual([]);
    const asked = server.requests.map(({path, query}) => `${path} ${query.get('labelSelector') ?? ''}`.trim());
    expect(asked.filter(path => /services|slices/.test(path)).sort()).toEqual([
      '/api/v1/namespaces/shop/services/web',
      '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices kubernetes.io/service-name=web',
    ]);
  });

  test('reads one namespace completely', async () => {
    const {api} = await served();
    const {api: read} = await readCluster(api, {kind: 'namespaces', namespaces: ['shop']});
    expect(namesOf(read.services)).toEqual(['shop/cart', 'shop/web']);
    expect(read.namespaces).toEqual(['shop']);
  });

  test('gives an empty list for a Service that does not exist, and no problem', async () => {
    const {api} = await served();
    const {api: read, problems} = await readCluster(api, {kind: 'services', services: [{namespace: 'shop', name: 'none'}]});
    expect(read.services).toEqual([]);
    expect(problems).toEqual([]);
  });

  test('gives null for a list without permission, and a problem that names verb, resource and the command that shows the permissions', async () => {
    const {api} = await served({allow: ({resource}) => resource !== 'nodes'});
    const {api: read, problems} = await readCluster(api, {kind: 'cluster'});
    expect(read.nodes).toBeNull();
    expect(read.services).toHaveLength(3);
    expect(problems).toEqual([
      {
        message: expect.stringContaining('cannot list resource "nodes"'),
        remedy: expect.stringContaining('kubectl svc-trace access'),
        isPermanent: true,
      },
    ]);
  });

  test("the problem of a list that kube-proxy's rules depend on names the list", async () => {
    const {api} = await served({allow: ({resource}) => resource !== 'services' && resource !== 'endpointslices'});
    const {problems} = await readCluster(api, {kind: 'cluster'});
    expect(problems.map(({list}) => list).toSorted()).toEqual(['endpointSlices', 'services']);
  });

  test('ConfigMaps without permission are a minor problem', async () => {
    const {api} = await served({allow: ({resource}) => resource !== 'configmaps'});
    const {problems} = await readCluster(api, {kind: 'cluster'});
    expect(problems.map(({isMinor}) => isMinor)).toEqual([true, true]);
  });

  test('reads the NetworkPolicies of the namespaces in scope, and leaves them out without a problem where that is not allowed', async () => {
    const networkpolicies = ['shop', 'other'].map(namespace => ({metadata: {namespace, name: 'clients'}, spec: {podSelector: {}}}));
    const {api} = await served({objects: {...objects, networkpolicies}});
    const policiesIn = async (scope: Parameters<typeof readCluster>[1]) =>
      namesOf((await readCluster(api, scope)).api.networkPolicies ?? null);
    expect(await policiesIn({kind: 'cluster'})).toEqual(['other/clients', 'shop/clients']);
    expect(await policiesIn({kind: 'services', services: ['web', 'cart'].map(name => ({namespace: 'shop', name}))})).toEqual([
      'shop/clients',
    ]);
    const refused = await served({allow: ({resource}) => resource !== 'networkpolicies'});
    const {api: read, problems} = await readCluster(refused.api, {kind: 'cluster'});
    expect([read.networkPolicies, problems]).toEqual([null, []]);
  });

  test('ServiceCIDRs without permission, or unknown to the API server, are left out without a problem', async () => {
    const refused = await served({allow: ({resource}) => resource !== 'servicecidrs'});
    const older = await served({faults: [{kind: 'status', match: /servicecidrs/, status: 404, message: '404 page not found'}]});
    for (const {api} of [refused, older]) {
      const {api: read, problems} = await readCluster(api, {kind: 'cluster'});
      expect(problems).toEqual([]);
      expect(read.serviceCIDRs).toBeNull();
    }
  });

  test('reads Endpoints from an API server without slices', async () => {
    const {api} = await served({
      objects: {...objects, endpoints: [{metadata: {namespace: 'shop', name: 'web'}, subsets: []}]},
      faults: [{kind: 'status', match: /endpointslices/, status: 404, message: '404 page not found'}],
    });
    const {api: read, problems} = await readCluster(api, {kind: 'cluster'});
    expect(problems).toEqual([]);
    expect(read.endpointSlices).toBeNull();
    expect(namesOf(read.endpoints)).toEqual(['shop/web']);
  });

  test('leaves out and reports an object with a field of the wrong type', async () => {
    const {api} = await served({
      objects: {...objects, services: [...objects.services, {metadata: {namespace: 'shop', name: 'odd'}, spec: {ports: 'none'}}]},
    });
    const {api: read, problems} = await readCluster(api, {kind: 'cluster'});
    expect(read.services).toHaveLength(3);
    expect(problems.map(({message}) => message)).toEqual(['/api/v1/services: item 2 is left out: its spec.ports is not a list']);
  });

  test('rejects if the credentials are not accepted', async () => {
    const {server} = await served();
    const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig, token: 'wrong'}), {backoff: 1});
    open.push(api);
    await expect(readCluster(api, {kind: 'cluster'})).rejects.toThrow(ApiError);
  });
});

describe('readAgentPods', () => {
  test('reads the pods of kube-proxy and of Cilium only, when every node has one', async () => {
    const {api, server} = await served();
    const {pods} = await readAgentPods(api, ['node-a']);
    expect(namesOf(pods)).toEqual(['kube-system/kube-proxy-1']);
    expect(server.requests.map(({query}) => query.get('labelSelector'))).toEqual([
      'k8s-app in (kube-proxy,cilium)',
      'component=kube-proxy',
    ]);
  });

  test('reads other agents on the nodes without kube-proxy', async () => {
    const {api} = await served();
    const {pods} = await readAgentPods(api, ['node-a', 'node-b']);
    expect(namesOf(pods)).toEqual(['kube-system/calico-node-1', 'kube-system/kube-proxy-1']);
  });

  test("if a node has none, kube-proxy's pods on other nodes are read too", async () => {
    const {api, server} = await served();
    const proxyPods = await readProxyPods(api, 'node-b');
    expect(server.requests.map(({query}) => query.get('fieldSelector'))).toEqual(['spec.nodeName=node-b', 'spec.nodeName=node-b']);
    const {pods} = await readAgentPods(api, ['node-b'], {proxyPods});
    expect(namesOf(pods)).toEqual(['kube-system/calico-node-1', 'kube-system/kube-proxy-1']);
  });

  test("if a node has one, kube-proxy's pods on other nodes are not read", async () => {
    const {api, server} = await served();
    const proxyPods = await readProxyPods(api, 'node-a');
    const {pods} = await readAgentPods(api, ['node-a'], {proxyPods});
    expect(namesOf(pods)).toEqual(['kube-system/kube-proxy-1']);
    expect(server.requests).toHaveLength(2);
  });

  test('reports once that pods may not be listed', async () => {
    const {api} = await served({allow: ({resource}) => resource !== 'pods'});
    const {pods, problems} = await readAgentPods(api, ['node-a']);
    expect(pods).toBeNull();
    expect(problems).toHaveLength(1);
    expect(problems[0]?.message).toContain('cannot list resource "pods"');
  });
});

test('readServicePods reads the pods that a Service selects', async () => {
  const {api} = await served();
  const {pods, podsOf} = await readServicePods(api, [{metadata: {namespace: 'shop', name: 'web'}, spec: {selector: {app: 'web'}}}]);
  expect(namesOf(pods)).toEqual(['shop/web-1']);
  expect([...podsOf]).toEqual(['shop/web']);
});
