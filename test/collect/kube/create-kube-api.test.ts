import {writeFileSync} from 'node:fs';
import http from 'node:http';
import {createServer as createTcpServer, type Socket} from 'node:net';
import {afterEach, describe, expect, onTestFinished, test, vi} from 'vitest';
import {join} from 'node:path';
import process from 'node:process';
import {Readable} from 'node:stream';
import {listPages, readResponse, sendRequest} from '../../../src/collect/kube/send-request.ts';
import type {ConnectionFlags} from '../../../src/collect/kube/kubeconfig.ts';
import {createKubeApi, type KubeApiOptions} from '../../../src/collect/kube/create-kube-api.ts';
import {ApiError, type KubeApi} from '../../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../../stand-in/api-server.ts';
import {certificate, certificateFile} from '../../stand-in/certificates.ts';
import {folderWith, kubeconfig} from './files.ts';
import {listen, startProxy, startSocks} from './proxies.ts';

const opened: KubeApi[] = [];
afterEach(() => {
  for (const api of opened.splice(0)) api.close();
});

const service = (index: number) => ({
  metadata: {name: `service-${String(index).padStart(5, '0')}`, namespace: 'shop'},
  spec: {ports: [{port: 80}]},
});
const objects = {services: Array.from({length: 1201}, (_, index) => service(index))};

async function start(options: ApiServerOptions = {objects}): Promise<ApiServer> {
  const server = await startApiServer(options);
  onTestFinished(() => server.close());
  return server;
}

interface Opening extends KubeApiOptions {
  readonly flags?: ConnectionFlags;
  readonly environment?: NodeJS.ProcessEnv;
}

function open(server: ApiServer, {flags, environment = {}, ...options}: Opening = {}): KubeApi {
  const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig, ...flags}, {environment, interactive: false}), {
    backoff: 5,
    ...options,
  });
  opened.push(api);
  return api;
}

const services = '/api/v1/namespaces/shop/services';

describe('reading', () => {
  test('a list is read in pages of 500 over one connection', async () => {
    const server = await start();
    const {items, resourceVersion} = await open(server).list<ReturnType<typeof service>>(services);
    expect(items.map(({metadata}) => metadata.name)).toEqual(objects.services.map(({metadata}) => metadata.name));
    expect(resourceVersion).toMatch(/^\d+$/);
    expect(server.requests.map(({query}) => query.get('limit'))).toEqual(['500', '500', '500']);
    expect(server.connections()).toBe(1);
  });

  test('an empty list has no items', async () => {
    expect((await open(await start({})).list('/api/v1/pods')).items).toEqual([]);
  });

  test('selectors reach the API server', async () => {
    const slice = (name: string, owner: string) => ({metadata: {name, namespace: 'shop', labels: {'kubernetes.io/service-name': owner}}});
    const server = await start({objects: {endpointslices: [slice('a', 'web'), slice('b', 'db')]}});
    const list = await open(server).list('/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices', {
      labelSelector: 'kubernetes.io/service-name=web',
    });
    expect(list.items).toMatchObject([{metadata: {name: 'a'}}]);
  });

  test('a list that expires while it is read is read again from the start', async () => {
    const server = await start({objects, faults: [{kind: 'expire-continue', times: 2}]});
    expect((await open(server).list(services)).items).toHaveLength(1201);
    expect(server.requests).toHaveLength(7);
  });

  test('a list that expires repeatedly is an error', async () => {
    const server = await start({objects, faults: [{kind: 'expire-continue'}]});
    await expect(open(server).list(services)).rejects.toMatchObject({status: 410, reason: 'Expired'});
    expect(server.requests).toHaveLength(8);
  });

  test.each([
    ['{}', {}],
    ['a Status', {kind: 'Status', metadata: {}, status: 'Success'}],
    ['a Table', {kind: 'Table', columnDefinitions: [], rows: []}],
    ['items that are an object', {kind: 'ServiceList', items: {a: 1}}],
    ['items that are a text', {items: 'none'}],
  ])('an answer that is no list is an error, and no empty list: %s', async (_, page) => {
    await expect(listPages('list services', async () => page as {items: null})).rejects.toThrow(
      /^cannot list services: the answer is no list/,
    );
  });

  test('items that are null are an empty list', async () => {
    expect((await listPages('list services', async () => ({kind: 'ServiceList', items: null}))).items).toEqual([]);
  });

  test.each([
    ['repeats a page', () => 'same', 2],
    ['always has another page', (asked: number) => String(asked), 20_000],
  ] as const)('a list of a server that %s is an error', async (_, next, pages) => {
    let asked = 0;
    const read = async () => ({metadata: {continue: next(++asked)}, items: []});
    await expect(listPages('list services', read)).rejects.toThrow(/^cannot list services: the API server sends pages without an end\.$/);
    expect(asked).toBe(pages);
  });

  test('an answer longer than a string can be is given up where it is too long', async () => {
    const part = Buffer.alloc(1 << 26, ' ');
    let parts = 0;
    const endless = async function* () {
      for (; parts < 160; parts++) yield part;
    };
    const response = Object.assign(Readable.from(endless(), {objectMode: true, highWaterMark: 1}), {headers: {}, statusCode: 200});
    await expect(readResponse(response as unknown as http.IncomingMessage)).rejects.toThrow(/^the answer is longer than \d+ bytes$/);
    expect(parts).toBeLessThan(12);
  });

  test('the path of the server precedes that of the request', async () => {
    const server = await start({});
    const api = open(server, {flags: {server: `${server.url}/k8s/clusters/c-1/`, 'certificate-authority': server.ca}});
    await expect(api.get('/version')).rejects.toMatchObject({status: 404});
    expect(server.requests.map(({path}) => path)).toEqual(['/k8s/clusters/c-1/version']);
  });

  test.each(['..', '.'])('a name %s asks for nothing else', async name => {
    const server = await start({objects});
    await expect(open(server).get(`/api/v1/namespaces/${encodeURIComponent(name)}/services`)).rejects.toMatchObject({status: 404});
    expect(server.requests).toEqual([]);
  });

  test('sends its name and version as the user agent', async () => {
    const server = await start({});
    await open(server, {userAgent: 'svc-trace/1.2.3'}).get('/version');
    expect(server.requests[0]?.headers['user-agent']).toBe('svc-trace/1.2.3');
  });
});

describe('an answer of another server than the API server', () => {
  test('is limited to the allowed length', async () => {
    const long = {objects: {services: Array.from({length: 400}, (_, index) => ({...service(index), text: 'x'.repeat(1000)}))}};
    const server = await start(long);
    const api = open(server);
    // By the bytes that come, and by what they are when they are unpacked.
    for (const maxBytes of [1000, 100_000])
      await expect(api.get(services, {}, {maxBytes})).rejects.toThrow(/^cannot list services in namespace shop: /);
    await expect(api.get(services, {}, {maxBytes: 10_000_000})).resolves.toMatchObject({kind: 'ServiceList'});
  });

  test('is not requested again if this was excluded', async () => {
    const server = await start({objects, faults: [{kind: 'status', status: 503}]});
    await expect(open(server).get(services, {}, {once: true})).rejects.toMatchObject({status: 503});
    expect(server.requests).toHaveLength(1);
  });

  test('is given up when the signal is aborted', async () => {
    const server = await start({objects, faults: [{kind: 'hang'}]});
    const stop = new AbortController();
    const asked = open(server).get(services, {}, {signal: stop.signal});
    setTimeout(() => stop.abort(new Error('enough')), 20);
    await expect(asked).rejects.toThrow('enough');
  });
});

describe('a stream', () => {
  const options = {signal: new AbortController().signal, silenceMs: 5000};
  async function textOf(parts: AsyncIterable<Buffer>): Promise<string> {
    const all: Buffer[] = [];
    for await (const part of parts) all.push(part);
    return Buffer.concat(all).toString('utf8');
  }

  test('gives a response in parts, decompressed', async () => {
    const server = await start();
    const list = JSON.parse(await textOf(await open(server).stream(services, {}, options))) as {items: unknown[]};
    expect(list.items).toHaveLength(1201);
    expect(server.requests[0]?.headers['accept-encoding']).toBe('gzip');
  });

  test('is an error if it is truncated', async () => {
    const server = await start({objects, faults: [{kind: 'truncate'}]});
    await expect(open(server).stream(services, {}, options).then(textOf)).rejects.toThrow();
  });

  test('is aborted if nothing arrives', async () => {
    const server = await start();
    const api = open(server);
    const query = {watch: '1', resourceVersion: String(server.store.revision)};
    const watch = await api.stream(services, query, {...options, silenceMs: 2000});
    await expect(textOf(watch)).rejects.toThrow();
  });

  test('that is refused is an ApiError', async () => {
    const server = await start({objects, faults: [{kind: 'status', status: 403, message: 'no'}]});
    await expect(open(server).stream(services, {}, options)).rejects.toMatchObject({name: 'ApiError', status: 403});
  });
});

describe('creating and deleting', () => {
  const pod = {metadata: {generateName: 'svc-trace-debug-'}, spec: {nodeName: 'node-a', containers: [{name: 'debug', image: 'x'}]}};

  test('a pod is created, runs, and does not exist after it was deleted', async () => {
    const server = await start({pods: {startDelay: 5, stopDelay: 5}});
    const api = open(server);
    const made = await api.create<{metadata: {name: string}; status: object}>('/api/v1/namespaces/kube-system/pods', pod);
    expect(made).toMatchObject({
      kind: 'Pod',
      metadata: {name: expect.stringMatching(/^svc-trace-debug-\w{5}$/)},
      status: {phase: 'Pending'},
    });
    const path = `/api/v1/namespaces/kube-system/pods/${made.metadata.name}`;
    await expect.poll(() => api.get(path), {interval: 5}).toMatchObject({status: {phase: 'Running'}});
    await api.delete(path, {gracePeriodSeconds: '0'});
    await expect.poll(() => server.store.all('pods'), {interval: 5}).toEqual([]);
    expect(server.requests.at(-1)?.query.get('gracePeriodSeconds')).toBe('0');
  });

  test('deleting an object that does not exist succeeds', async () => {
    const server = await start({});
    await expect(open(server).delete('/api/v1/namespaces/kube-system/pods/nope')).resolves.toBeUndefined();
    expect(server.requests.map(({resource}) => `${resource?.verb} ${resource?.name}`)).toEqual(['delete nope']);
  });

  test('a POST is not repeated if its result is unknown', async () => {
    const server = await start({faults: [{kind: 'reset', times: 1, match: /^POST/}]});
    await expect(open(server).create('/api/v1/namespaces/shop/pods', pod)).rejects.toThrow(
      /cannot create pods in namespace shop: .*broke off/,
    );
    expect(server.requests).toHaveLength(1);
  });

  test('a POST is repeated if the API server was too busy for it', async () => {
    const server = await start({faults: [{kind: 'status', status: 429, retryAfter: 0, times: 2}]});
    await open(server).create('/api/v1/namespaces/shop/pods', pod);
    expect(server.requests).toHaveLength(3);
  });
});

describe('transient failures', () => {
  test.each([
    ['a response that the API server is too busy', {kind: 'status', status: 429, retryAfter: 0, times: 3}],
    ['a response that the API server is starting', {kind: 'status', status: 503, times: 3}],
    ['a connection that breaks', {kind: 'reset', times: 3}],
    ['a truncated response', {kind: 'truncate', times: 3}],
  ] as const)('the request is repeated after %s', async (_, fault) => {
    const server = await start({objects, faults: [{...fault}]});
    expect((await open(server).list(services)).items).toHaveLength(1201);
    expect(server.requests).toHaveLength(6);
  });

  test('the request is repeated after 429 without Retry-After, each time later than before', async () => {
    const server = await start({objects, faults: [{kind: 'status', status: 429, times: 4}]});
    const before = performance.now();
    expect((await open(server, {backoff: 20}).list(services)).items).toHaveLength(1201);
    expect(server.requests).toHaveLength(7);
    expect(performance.now() - before).toBeGreaterThan(20 + 40 + 80 + 160 - 10);
  });

  test('a page in the middle of a list that fails is requested again, and no object is missing or doubled', async () => {
    const server = await start({objects, faults: [{kind: 'status', status: 500, match: /continue=/, times: 3}]});
    const {items} = await open(server).list<ReturnType<typeof service>>(services);
    expect(items.map(({metadata}) => metadata.name)).toEqual(objects.services.map(({metadata}) => metadata.name));
    expect(server.requests).toHaveLength(6);
  });

  test('a page in the middle of a list that always fails is an error, never a part of the list', async () => {
    const server = await start({objects, faults: [{kind: 'status', status: 500, match: /continue=/}]});
    await expect(open(server).list(services)).rejects.toThrow(/cannot list services in namespace shop: .* answered 500/);
    expect(server.requests).toHaveLength(6);
  });

  test.each([301, 302, 307, 308])('a redirect (%i) is an error, and no other server gets the token', async status => {
    const asked: http.IncomingHttpHeaders[] = [];
    const other = await listen(
      http.createServer((request, response) => {
        asked.push(request.headers);
        response.end('{"items":[]}');
      }),
    );
    const location = `http://127.0.0.1:${other}/api`;
    const port = await listen(http.createServer((_, response) => response.writeHead(status, {location}).end()));
    const connection = loadConnection({server: `http://127.0.0.1:${port}`, token: 'secret'}, {environment: {HOME: '/nonexistent'}});
    const api = createKubeApi(connection, {backoff: 5});
    opened.push(api);
    await expect(api.list(services)).rejects.toThrow(new RegExp(`answered ${status} .*redirects to 127\\.0\\.0\\.1:${other}`));
    expect(asked).toEqual([]);
  });

  test('a TLS handshake that never ends is an error in time', async () => {
    const sockets: Socket[] = [];
    const port = await listen(createTcpServer(socket => void sockets.push(socket.on('error', () => {}))));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
    });
    const connection = loadConnection(
      {server: `https://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true},
      {environment: {HOME: '/nonexistent'}},
    );
    const api = createKubeApi(connection, {backoff: 5, requestTimeout: 200});
    opened.push(api);
    await expect(api.list(services)).rejects.toThrow(/did not answer in time/);
    const url = new URL(`https://127.0.0.1:${port}/version`);
    const wire = {method: 'GET', url, body: null, signal: new AbortController().signal, silenceMs: 200};
    await expect(sendRequest(wire)).rejects.toThrow('no answer within 0.2 s');
    expect(sockets.length).toBeGreaterThan(1);
  });

  test('Retry-After is honored', async () => {
    const server = await start({faults: [{kind: 'status', status: 429, retryAfter: 1, times: 1}]});
    const before = performance.now();
    await open(server).get('/version');
    expect(performance.now() - before).toBeGreaterThan(950);
  });

  test('an API server that asks to come back in an hour is not waited for, and the error says what it asks', async () => {
    const server = await start({faults: [{kind: 'status', status: 429, retryAfter: 3600}]});
    await expect(open(server).get('/version')).rejects.toThrow(/too much to do \(429 Too Many Requests: .*; Retry-After: 3600\)/);
    expect(server.requests).toHaveLength(1);
  });

  test('an answer that comes byte by byte is an error that says so', async () => {
    const port = await listen(
      http.createServer((_, response) => {
        const timer = setInterval(() => response.write(' '), 10);
        response.on('close', () => clearInterval(timer));
      }),
    );
    const url = new URL(`http://127.0.0.1:${port}/version`);
    const wire = {method: 'GET', url, body: null, signal: new AbortController().signal, silenceMs: 2000};
    await expect(sendRequest(wire)).rejects.toThrow(/^the answer comes too slowly: \d+ bytes within 2 s$/);
  });

  test('a DELETE ends with its signal', async () => {
    const server = await start({faults: [{kind: 'hang', match: /^DELETE/}]});
    await expect(open(server).delete(`${services}/web`, {}, AbortSignal.timeout(50))).rejects.toThrow(/did not answer in time/);
  });

  test.each([
    [429, 9, /too much to do \(429 Too Many Requests: Too many requests/],
    [503, 5, /answered 503 Service Unavailable: the server is currently unable/],
  ])('an API server that always answers %s gets %s requests', async (status, times, message) => {
    const server = await start({faults: [{kind: 'status', status, retryAfter: 0}]});
    await expect(open(server).list(services)).rejects.toThrow(message);
    expect(server.requests).toHaveLength(times);
  });

  test.each(['reset', 'truncate'] as const)('a connection that always ends by %s is an error, never a short response', async kind => {
    const server = await start({objects, faults: [{kind}]});
    await expect(open(server).list(services)).rejects.toThrow(
      /cannot list services in namespace shop: 127\.0\.0\.1:\d+ broke off the connection/,
    );
  });

  test('--request-timeout ends a request without a response', async () => {
    const server = await start({faults: [{kind: 'hang'}]});
    const error = await open(server, {requestTimeout: 100})
      .get('/api/v1/nodes')
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({status: null, message: expect.stringMatching(/cannot list nodes: .* did not answer in time/)});
  });

  test('--request-timeout applies to each request, not to all pages', async () => {
    const server = await start({objects});
    // The time of each request is over when the next one is made.
    let last: AbortController | undefined;
    const timeouts = vi.spyOn(AbortSignal, 'timeout').mockImplementation(() => {
      last?.abort();
      last = new AbortController();
      return last.signal;
    });
    onTestFinished(() => timeouts.mockRestore());
    expect((await open(server, {requestTimeout: 7000}).list(services)).items).toHaveLength(1201);
    expect(timeouts.mock.calls).toEqual(server.requests.map(() => [7000]));
    expect(server.requests.length).toBeGreaterThan(1);
  });

  test('close() ends pending requests', async () => {
    const server = await start({faults: [{kind: 'hang'}]});
    const api = open(server);
    const asked = api.get('/version');
    setTimeout(() => api.close(), 50);
    await expect(asked).rejects.toThrow(/stopped/);
  });

  test('names the address and the context where no API server listens', async () => {
    const server = await start();
    const api = open(server);
    await server.close();
    await expect(api.list(services)).rejects.toThrow(/nothing listens at 127\.0\.0\.1:\d+ \(ECONNREFUSED\).*context "stand-in"/);
  });

  test('names a host that cannot be resolved', async () => {
    const api = open(await start({}), {flags: {server: 'https://nowhere.invalid:6443'}});
    await expect(api.get('/version')).rejects.toThrow(/the name nowhere\.invalid cannot be resolved/);
  });

  test('a server that is not an API server is reported', async () => {
    const port = await listen(http.createServer((_, response) => response.end('<html>hello</html>')));
    const api = createKubeApi(loadConnection({server: `http://127.0.0.1:${port}`}, {environment: {HOME: '/nonexistent'}}));
    await expect(api.get('/version')).rejects.toThrow(/no JSON. Is it an API server\?/);
    const tls = createKubeApi(
      loadConnection({server: `https://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true}, {environment: {HOME: '/nonexistent'}}),
    );
    await expect(tls.get('/version')).rejects.toThrow(/does not speak TLS/);
    api.close();
    tls.close();
  });
});

describe('the difference to the clock of the API server', () => {
  const hour = 3_600_000;
  const ofNodes = [
    '/api/v1/nodes/node-a:10256/proxy/healthz',
    '/api/v1/namespaces/svc-trace/pods/https:agent-x7k2p:9443/proxy/result',
    '/api/v1/namespaces/kube-system/pods/kube-proxy-x7k2p/exec',
  ];

  /** The API server's clock is behind this one, and the nodes' clocks are ahead of both. */
  async function skewed(): Promise<KubeApi> {
    const server = http.createServer(({url = ''}, response) => {
      const isNode = ofNodes.some(path => url.startsWith(path));
      const date = new Date(Date.now() + (isNode ? 2 * hour : -hour)).toUTCString();
      response.writeHead(isNode ? 500 : 200, {date}).end('{"kind": "Status", "message": "an error"}');
    });
    const port = await listen(server);
    onTestFinished(() => void server.close());
    const api = createKubeApi(loadConnection({server: `http://127.0.0.1:${port}`}, {environment: {HOME: '/nonexistent'}}), {backoff: 1});
    opened.push(api);
    return api;
  }

  test('is the difference to the Date header of its responses', async () => {
    const api = await skewed();
    await api.get('/version');
    expect(api.clockAheadMs).toBeGreaterThanOrEqual(hour);
    expect(api.clockAheadMs).toBeLessThan(hour + 60_000);
  });

  test('does not come from the Date of kube-proxy, of an agent or of a kubelet that refuses an exec', async () => {
    const api = await skewed();
    const [page = '', agent = ''] = ofNodes;
    const target = {namespace: 'kube-system', pod: 'kube-proxy-x7k2p', container: 'kube-proxy'};
    await expect(api.proxied(page, {})).rejects.toMatchObject({status: 500});
    await expect(api.get(agent, {}, {once: true})).rejects.toMatchObject({status: 500});
    await expect(api.exec(target, ['iptables-save'], new AbortController().signal)).rejects.toMatchObject({status: 500});
    expect(api.clockAheadMs).toBe(0);
  });
});

describe('certificates', () => {
  test('an API server of another authority is refused', async () => {
    const api = open(await start({}), {flags: {'certificate-authority': certificateFile('other-ca.crt')}});
    await expect(api.get('/version')).rejects.toThrow(
      /from an authority that the kubeconfig does not trust.*Is the kubeconfig of this cluster/,
    );
  });

  test('trusts the authorities of the system where the kubeconfig names none', async () => {
    const server = await start({});
    const folder = folderWith({config: kubeconfig('a', {cluster: {server: server.url}})});
    await expect(open(server, {flags: {kubeconfig: join(folder, 'config')}}).get('/version')).rejects.toThrow(/does not trust/);
  });

  test('many concurrent requests all succeed', async () => {
    const warnings: Error[] = [];
    const warned = (warning: Error) => warnings.push(warning);
    process.on('warning', warned);
    onTestFinished(() => void process.off('warning', warned));
    const api = open(await start({objects}));
    const lists = await Promise.all(Array.from({length: 40}, () => api.list(services, {fieldSelector: 'metadata.name=service-00007'})));
    expect(lists.flatMap(({items}) => items)).toHaveLength(40);
    expect(warnings).toEqual([]);
  });

  test('a certificate for another name is refused unless that name is given', async () => {
    const server = await start({certificate: 'elsewhere'});
    await expect(open(server).get('/version')).rejects.toThrow(/ is for DNS:\S+, and not for 127\.0\.0\.1\. .*--tls-server-name/);
    expect(await open(server, {flags: {'tls-server-name': 'elsewhere.example'}}).get('/version')).toMatchObject({major: '1'});
  });

  test('--insecure-skip-tls-verify accepts any certificate', async () => {
    const server = await start({certificate: 'elsewhere'});
    expect(await open(server, {flags: {'insecure-skip-tls-verify': true}}).get('/version')).toMatchObject({major: '1'});
  });

  test('reports the request that fails where the authority holds no certificate', async () => {
    const server = await start({});
    const invalid = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
    const folder = folderWith({
      config: kubeconfig('a', {cluster: {server: server.url, 'certificate-authority': 'ca.crt'}}),
      'ca.crt': invalid,
    });
    const api = open(server, {flags: {kubeconfig: join(folder, 'config')}});
    await expect(api.list('/api/v1/nodes')).rejects.toThrow(/^cannot list nodes: /);
    expect(server.connections()).toBeLessThan(2);
  });

  test('authenticates with a client certificate', async () => {
    const server = await start({});
    const user = {token: '', 'client-certificate': certificateFile('client.crt'), 'client-key': certificateFile('client.key')};
    const cluster = {server: server.url, 'certificate-authority': server.ca};
    const folder = folderWith({config: kubeconfig('a', {cluster, user})});
    await open(server, {flags: {kubeconfig: join(folder, 'config')}}).list('/api/v1/nodes');
    expect(server.requests[0]?.user).toEqual({name: 'carla', groups: ['testers', 'system:authenticated']});
  });
});

describe('authentication and authorization', () => {
  test('reports that a token has expired', async () => {
    const server = await start({tokens: {old: {user: 'ann', expired: true}}});
    const error = await open(server, {flags: {token: 'old'}})
      .list('/api/v1/nodes')
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({status: 401, reason: 'Unauthorized'});
    expect(String(error)).toMatch(
      /cannot list nodes: 127\.0\.0\.1:\d+ does not accept the token of user "admin" \(401 Unauthorized\)\. The token has expired/,
    );
  });

  test('runs the plugin again and repeats the request when a credential is refused', async () => {
    const server = await start({objects, tokens: {one: {user: 'ann'}, two: {user: 'ann'}}});
    const cluster = {server: server.url, 'certificate-authority': server.ca};
    const script = `#!${process.execPath}
      const {existsSync, writeFileSync} = require('node:fs');
      const token = existsSync(__dirname + '/ran') ? 'two' : 'zero';
      writeFileSync(__dirname + '/ran', '');
      console.log(JSON.stringify({kind: 'ExecCredential', apiVersion: 'client.authentication.k8s.io/v1', status: {token}}));`;
    const exec = {apiVersion: 'client.authentication.k8s.io/v1', command: './plugin.cjs', interactiveMode: 'Never'};
    const folder = folderWith({config: kubeconfig('a', {cluster, user: {token: '', exec}}), 'plugin.cjs': script});
    expect((await open(server, {flags: {kubeconfig: join(folder, 'config')}}).list(services)).items).toHaveLength(1201);
    expect(server.requests.map(({user}) => user?.name ?? null)).toEqual([null, 'ann', 'ann', 'ann']);
  });

  test('uses the new client certificate of a plugin on new connections', async () => {
    const server = await start({});
    const apiVersion = 'client.authentication.k8s.io/v1';
    const answer = (status: object) => ({kind: 'ExecCredential', apiVersion, status});
    const pair = (name: string) => ({clientCertificateData: certificate(`${name}.crt`), clientKeyData: certificate(`${name}.key`)});
    const exec = {apiVersion, command: './plugin', interactiveMode: 'Never'};
    const cluster = {server: server.url, 'certificate-authority': server.ca};
    const folder = folderWith({
      config: kubeconfig('a', {cluster, user: {token: '', exec}}),
      plugin: '#!/bin/sh\ncat "$(dirname "$0")/answer"',
      answer: answer({...pair('untrusted-client'), expirationTimestamp: '2020-01-01T00:00:00Z'}),
    });
    const api = open(server, {flags: {kubeconfig: join(folder, 'config')}, environment: {PATH: process.env['PATH']}});
    await api.get('/version').catch(() => {});
    writeFileSync(join(folder, 'answer'), JSON.stringify(answer(pair('client'))));
    for (let count = 0; count < 2; count++) await api.list('/api/v1/nodes');
    expect(server.requests.map(({user}) => user?.name ?? null).slice(-2)).toEqual(['carla', 'carla']);
    expect(server.requests[0]?.user?.name).not.toBe('carla');
    expect(server.connections()).toBe(2);
  });

  test('names the missing permission, and the command that shows what is needed', async () => {
    const server = await start({tokens: {weak: {user: 'ann'}}, allow: ({resource}) => resource !== 'nodes'});
    const api = open(server, {flags: {token: 'weak'}});
    await expect(api.list('/api/v1/nodes')).rejects.toThrow(
      'not allowed to list nodes: nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope. "kubectl svc-trace access"',
    );
    await expect(api.list('/api/v1/nodes')).rejects.toMatchObject({status: 403, reason: 'Forbidden'});
    expect((await api.list('/api/v1/pods')).items).toEqual([]);
  });

  test('reports that the kubeconfig has no credentials', async () => {
    const server = await start({});
    const cluster = {server: server.url, 'certificate-authority': server.ca};
    const folder = folderWith({config: {...kubeconfig('a', {cluster}), users: []}});
    const api = open(server, {flags: {kubeconfig: join(folder, 'config')}});
    await expect(api.list('/api/v1/nodes')).rejects.toThrow(
      /User "system:anonymous" cannot list.*Nothing in the kubeconfig says who you are/,
    );
  });

  test('learns what is allowed from an access review', async () => {
    const server = await start({allow: ({subresource}) => subresource !== 'exec'});
    const review = (subresource: string) => ({
      spec: {resourceAttributes: {verb: 'create', resource: 'pods', subresource, namespace: 'kube-system'}},
    });
    const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
    expect(await open(server).create(path, review('exec'))).toMatchObject({status: {allowed: false}});
    expect(await open(server).create(path, review(''))).toMatchObject({status: {allowed: true}});
  });

  test('impersonates a user with groups, uid and extra fields', async () => {
    const server = await start({});
    const user = {
      token: 'admin-token',
      as: 'jörg',
      'as-groups': ['a', 'b'],
      'as-uid': '7',
      'as-user-extra': {'scopes.example.com/x': ['1', '2']},
    };
    const cluster = {server: server.url, 'certificate-authority': server.ca};
    const folder = folderWith({config: kubeconfig('a', {cluster, user})});
    await open(server, {flags: {kubeconfig: join(folder, 'config')}}).get('/version');
    expect(server.requests[0]?.user).toEqual({
      name: 'jörg',
      groups: ['a', 'b', 'system:authenticated'],
      uid: '7',
      extra: {'scopes.example.com/x': ['1', '2']},
    });
  });
});

describe('through a proxy', () => {
  test('connects through proxy-url with its password, and TLS ends at the API server', async () => {
    const server = await start({objects});
    const proxy = await startProxy();
    const api = open(server, {flags: {'proxy-url': `http://ann:secret@127.0.0.1:${proxy.port}`}});
    expect((await api.list(services)).items).toHaveLength(1201);
    expect(proxy.seen).toEqual([`${new URL(server.url).host} Basic ${Buffer.from('ann:secret').toString('base64')}`]);
    const distrustful = open(server, {
      flags: {'proxy-url': `http://127.0.0.1:${proxy.port}`, 'certificate-authority': certificateFile('other-ca.crt')},
    });
    await expect(distrustful.get('/version')).rejects.toThrow(/does not trust/);
  });

  test('checks the certificate against the API server, not against the proxy', async () => {
    const server = await start({certificate: 'elsewhere'});
    const proxy = await startProxy();
    await expect(open(server, {flags: {'proxy-url': `http://127.0.0.1:${proxy.port}`}}).get('/version')).rejects.toThrow(
      / is for DNS:\S+, and not for 127\.0\.0\.1/,
    );
  });

  test('names the proxy, and not the API server, if the proxy refuses', async () => {
    const proxy = await startProxy(407);
    const api = open(await start({}), {flags: {'proxy-url': `http://127.0.0.1:${proxy.port}`}});
    await expect(api.get('/version')).rejects.toThrow(
      /the proxy http:\/\/127\.0\.0\.1:\d+ does not connect to 127\.0\.0\.1:\d+: it answered 407/,
    );
  });

  test('connects through a SOCKS proxy', async () => {
    const server = await start({});
    const port = await startSocks();
    expect(await open(server, {flags: {'proxy-url': `socks5://127.0.0.1:${port}`}}).get('/version')).toMatchObject({major: '1'});
  });
});
