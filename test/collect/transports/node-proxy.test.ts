import {describe, expect, onTestFinished, test} from 'vitest';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import {ApiError, type KubeApi} from '../../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {collectNode} from '../../../src/collect/node/collect-node.ts';
import type {CollectedNode} from '../../../src/collect/node/transport.ts';
import {execTransport, nodeProxyPages} from '../../../src/collect/transports/exec.ts';
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

function collect(api: KubeApi, transport = execTransport(api)): Promise<CollectedNode> {
  const wants = (file: string) => file === 'iptables-save' || files.includes(file);
  return collectNode(node, transport, {signal: new AbortController().signal, timeoutMs: 600_000, wants});
}

/** `PORT/PATH` of each request for a page. */
function pagesAsked({requests}: ApiServer): readonly string[] {
  return requests.flatMap(({path}) => /\/nodes\/node-a:(\d+)\/proxy(\/.*)/.exec(path)?.slice(1).join('') ?? []).sort();
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
    expect(pagesAsked(server)).toEqual(['10249/configz', '10249/metrics', '10249/proxyMode', '10256/healthz']);
  });

  test('of ports that kube-proxy serves on loopback only are reported with the reason, and asked for once', async () => {
    const {api, server} = await clusterWith({nodePage: (_, port) => (port === '10256' ? {body: '{}'} : null)});
    const read = await collect(api);
    expect(read).toMatchObject({status: 'read', problems: [], files: ['healthz.json', 'iptables-save']});
    const why =
      'connection refused at port 10249 of the node (asked through the API server): by default kube-proxy listens there on the loopback address only; --transport debug, ssh and local read it on the node';
    const byName = read.missing.toSorted((a, b) => (a.file < b.file ? -1 : 1));
    expect(byName).toEqual(['configz.json', 'metrics', 'proxy-mode'].map(file => ({file, reason: why})));
    expect(pagesAsked(server)).toEqual(['10249/proxyMode', '10256/healthz']);
  });

  test('without permission for nodes/proxy the node is still read, and the message names the Role', async () => {
    const {api, server} = await clusterWith({allow: ({subresource}) => subresource !== 'proxy', nodePage: () => ({body: '{}'})});
    const read = await collect(api);
    expect(read).toMatchObject({status: 'read', problems: [], files: ['iptables-save']});
    expect(new Set(read.missing.map(({reason}) => reason))).toEqual(
      new Set(['you may not get nodes/proxy, an optional right ("kubectl svc-trace access" says what it opens)']),
    );
    expect(read.missing).toHaveLength(4);
    expect(pagesAsked(server)).toEqual(['10249/proxyMode', '10256/healthz']);
  });

  test('that a kube-proxy does not serve are missing, and its others are read', async () => {
    const {api} = await clusterWith({
      nodePage: (_, _port, path) => (path === '/proxyMode' ? {status: 404, body: '404 page not found\n'} : {body: '{}'}),
    });
    const read = await collect(api);
    expect(read.missing).toEqual([{file: 'proxy-mode', reason: 'kube-proxy has no page /proxyMode at port 10249'}]);
    expect(read.files).toEqual(['configz.json', 'healthz.json', 'iptables-save', 'metrics']);
  });

  test('are read if one of them fails for a reason of its own', async () => {
    const {api} = await clusterWith({nodePage: () => ({body: '{}'})});
    const whenever = api.proxied.bind(api);
    api.proxied = async (path, options) => {
      if (path.endsWith('/proxyMode')) throw new ApiError('the answer is longer than 5 bytes', {status: null});
      return whenever(path, options);
    };
    const read = await collect(api);
    expect(read.missing.map(({file}) => file)).toEqual(['proxy-mode']);
    expect(read.files).toEqual(['configz.json', 'healthz.json', 'iptables-save', 'metrics']);
  });

  test('are requested again when the node is read again', async () => {
    let isListening = false;
    const {api} = await clusterWith({nodePage: () => (isListening ? {body: '{}'} : null)});
    const transport = execTransport(api);
    expect((await collect(api, transport)).files).toEqual(['iptables-save']);
    isListening = true;
    expect((await collect(api, transport)).files).toEqual(['configz.json', 'healthz.json', 'iptables-save', 'metrics', 'proxy-mode']);
  });
});

test('behind a firewall between the API server and the nodes are only tried on two nodes', async () => {
  const api = new FakeKubeApi();
  api.onProxied = () => {
    throw new ApiError('error trying to reach service: dial tcp 172.18.0.11:10256: i/o timeout', {status: 503});
  };
  const pagesOf = nodeProxyPages(api);
  const page = {file: 'healthz.json', port: 10256, path: '/healthz'};
  const asked = (name: string) => pagesOf(name)(page, new AbortController().signal).catch((error: Error) => error.message);
  const silent = 'no answer at port 10256 of the node within 5 s (asked through the API server)';
  expect([await asked('node-a'), await asked('node-b')]).toEqual([silent, silent]);
  expect(await asked('node-c')).toBe('not asked: the API server got no answer at port 10256 of other nodes');
  expect(api.calls).toHaveLength(2);
});

test('a node without an answer is told from a firewall by other nodes that answer', async () => {
  const api = new FakeKubeApi();
  api.onProxied = path => {
    if (path.includes('node-a:')) return {status: 200, body: Buffer.from('{}')};
    throw new ApiError('stream error: deadline exceeded', {status: 504});
  };
  const pagesOf = nodeProxyPages(api);
  const page = {file: 'healthz.json', port: 10256, path: '/healthz'};
  await pagesOf('node-a')(page, new AbortController().signal);
  await expect(pagesOf('node-b')(page, new AbortController().signal)).rejects.toThrow(
    'no answer at port 10256 of the node within 5 s, while other nodes answer there (asked through the API server)',
  );
});

test('behind a firewall all pages of a node take one timeout', async () => {
  const api = new FakeKubeApi();
  api.onProxied = () => {
    throw new ApiError('error trying to reach service: dial tcp 172.18.0.11:10249: i/o timeout', {status: 503});
  };
  const read = nodeProxyPages(api)('node-a');
  const asked = ['/proxyMode', '/configz', '/metrics'].map(path =>
    read({file: path, port: 10249, path}, new AbortController().signal).catch((error: Error) => error.message),
  );
  expect(new Set(await Promise.all(asked))).toEqual(
    new Set(['no answer at port 10249 of the node within 5 s (asked through the API server)']),
  );
  expect(api.calls).toHaveLength(1);
});
