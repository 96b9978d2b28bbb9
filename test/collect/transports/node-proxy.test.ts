import {describe, expect, onTestFinished, test} from 'vitest';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import {ApiError, type KubeApi} from '../../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {collectNode} from '../../../src/collect/node/collect-node.ts';
import type {CollectedNode} from '../../../src/collect/node/collected-node.ts';
import {execTransport} from '../../../src/collect/transports/exec.ts';
import {nodeProxyPages} from '../../../src/collect/transports/node-proxy.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../../stand-in/api-server.ts';
import {kubeProxyPods} from '../../stand-in/kube-proxy-pods.ts';
import {FakeKubeApi, hostPod} from './fake-kube-api.ts';

const files = ['healthz.json', 'metrics', 'configz.json', 'proxy-mode'];
const node = {name: 'node-a', addresses: [], labels: {}, pods: [hostPod('kube-proxy-node-a', {containers: ['kube-proxy']})]};

async function clusterWith(options: Partial<ApiServerOptions>): Promise<{readonly api: KubeApi; readonly server: ApiServer}> {
  const nodes = [{metadata: {name: 'node-a'}}];
  const server = await startApiServer({
    objects: {nodes, pods: kubeProxyPods(nodes)},
    tokens: {weak: {user: 'ann'}},
    exec: ({argv}) => (argv[0] === 'iptables-save' ? {stdout: '*nat\nCOMMIT\n'} : {exitCode: 127, stderr: 'not found'}),
    ...options,
  });
  onTestFinished(() => server.close());
  const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig, token: 'weak'}, {environment: {}}), {backoff: 1});
  onTestFinished(() => api.close());
  return {api, server};
}

function collect(api: KubeApi): Promise<CollectedNode> {
  const wants = (file: string) => file === 'iptables-save' || files.includes(file);
  return collectNode(node, execTransport(api), {signal: AbortSignal.timeout(20_000), timeoutMs: 20_000, wants});
}

const unhealthy = '{"lastUpdated": "2026-11-21 10:00:00 +0000 UTC", "currentTime": "2026-11-21 10:10:00 +0000 UTC"}';

describe("kube-proxy's pages through the API server's proxy to the node", () => {
  test('are read without a program in the pod, also the health of one that answers 503', async () => {
    const {api, server} = await clusterWith({
      nodePage: (_, port, path) =>
        port === '10256' ? {status: 503, body: unhealthy} : {body: path === '/metrics' ? 'kubeproxy_a 1\ngo_b 2\n' : `page ${path}`},
    });
    const read = await collect(api);
    expect(files.map(file => read.read(file)?.toString())).toEqual([unhealthy, 'kubeproxy_a 1\n', 'page /configz', 'page /proxyMode']);
    expect(server.requests.some(({argv}) => argv[0] === 'curl' || argv[0] === 'wget')).toBe(false);
    expect(server.requests.flatMap(({path}) => (path.includes('/nodes/') ? [path] : [])).sort()).toEqual(
      ['10249/proxy/configz', '10249/proxy/metrics', '10249/proxy/proxyMode', '10256/proxy/healthz'].map(
        page => `/api/v1/nodes/node-a:${page}`,
      ),
    );
  });

  test('of ports that kube-proxy serves on loopback only are reported with the reason', async () => {
    const {api} = await clusterWith({nodePage: (_, port) => (port === '10256' ? {body: '{}'} : null)});
    const read = await collect(api);
    expect(read).toMatchObject({status: 'read', problems: [], files: ['healthz.json', 'iptables-save']});
    const why =
      'connection refused at port 10249 of the node (asked through the API server): by default kube-proxy listens there on the loopback address only; --transport debug, ssh and local read it on the node';
    expect(read.missing).toEqual(['metrics', 'configz.json', 'proxy-mode'].map(file => ({file, reason: why})));
  });

  test('without permission for nodes/proxy the node is still read, and the message names the Role', async () => {
    const {api} = await clusterWith({allow: ({subresource}) => subresource !== 'proxy', nodePage: () => ({body: '{}'})});
    const read = await collect(api);
    expect(read).toMatchObject({status: 'read', problems: [], files: ['iptables-save']});
    expect(new Set(read.missing.map(({reason}) => reason))).toEqual(
      new Set(['you may not get nodes/proxy ("kubectl svc-trace access" has the Role)']),
    );
  });

  test('that a kube-proxy does not serve are missing', async () => {
    const {api} = await clusterWith({nodePage: () => ({status: 404, body: '404 page not found\n'})});
    expect((await collect(api)).missing).toContainEqual({file: 'configz.json', reason: 'kube-proxy has no page /configz at port 10249'});
  });
});

test('behind a firewall between the API server and the nodes are only tried on two nodes', async () => {
  const api = new FakeKubeApi();
  api.onProxied = () => {
    throw new ApiError('error trying to reach service: dial tcp 172.18.0.11:10256: i/o timeout', {status: 503});
  };
  const readPage = nodeProxyPages(api);
  const page = {file: 'healthz.json', port: 10256, path: '/healthz'};
  const asked = (name: string) => readPage(name, page, new AbortController().signal).catch((error: Error) => error.message);
  const silent = 'no answer at port 10256 of the node within 5 s (asked through the API server)';
  expect([await asked('node-a'), await asked('node-b')]).toEqual([silent, silent]);
  expect(await asked('node-c')).toBe('not asked: the API server got no answer at port 10256 of other nodes');
  expect(api.calls).toHaveLength(2);
});
