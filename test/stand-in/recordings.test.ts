import {readFileSync} from 'node:fs';
import https from 'node:https';
import {expect, onTestFinished, test} from 'vitest';
import WebSocket from 'ws';
import {fixture} from '../fixtures.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from './api-server.ts';
import {certificate} from './certificates.ts';

// Holds the stand-in against what a real API server and a real kubelet answered.
const node = {
  metadata: {name: 'node-a', labels: {'topology.kubernetes.io/zone': 'zone-1'}},
  status: {addresses: [{type: 'InternalIP', address: '172.18.0.11'}]},
};
const pod = {
  metadata: {name: 'kube-proxy-abcde', namespace: 'kube-system'},
  spec: {nodeName: 'node-a', containers: [{name: 'kube-proxy', image: 'x'}]},
  status: {phase: 'Running'},
};

async function start(options: ApiServerOptions = {}): Promise<ApiServer> {
  const tokens = {'proxy-token': {user: 'system:kube-proxy'}};
  const server = await startApiServer({objects: {nodes: [node], pods: [pod]}, tokens, ...options});
  onTestFinished(() => server.close());
  return server;
}

interface Recording {
  readonly path: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

function recorded(name: string): Recording {
  const text = readFileSync(fixture(`api-recordings/${name}.http`), 'utf8').replaceAll('\r', '');
  const [, path = '', status = '', head = '', body = ''] = /^\$ curl -i (\S+)[^\n]*\nHTTP\/2 (\d+) \n(.*?)\n\n(.*)$/s.exec(text) ?? [];
  const lines = head.split('\n').map(line => [line.split(': ', 1)[0] ?? '', line.replace(/^[^:]*: /, '')] as const);
  return {path, status: Number(status), headers: Object.fromEntries(lines), body: JSON.parse(body)};
}

interface Asking {
  readonly method?: string;
  /** Null for none. */
  readonly token?: string | null;
  readonly body?: object;
}

async function ask(server: ApiServer, path: string, {method = 'GET', token = 'admin-token', body}: Asking = {}): Promise<Recording> {
  const {promise, resolve, reject} = Promise.withResolvers<Recording>();
  const headers = token === null ? {} : {authorization: `Bearer ${token}`};
  const request = https.request(`${server.url}${path}`, {method, headers, ca: certificate('ca.crt'), agent: false}, async response => {
    const parts: Buffer[] = [];
    for await (const part of response) parts.push(part as Buffer);
    const answer = JSON.parse(Buffer.concat(parts).toString('utf8')) as unknown;
    resolve({path, status: response.statusCode ?? 0, headers: response.headers, body: answer});
  });
  request.on('error', reject);
  request.end(body === undefined ? undefined : JSON.stringify(body));
  return promise;
}

test.each<[string, Asking]>([
  ['not-found', {}],
  ['forbidden', {token: 'proxy-token'}],
  ['forbidden-exec', {token: 'proxy-token'}],
  ['unauthorized', {token: 'expired'}],
  ['anonymous', {token: null}],
])('%s is answered exactly as recorded', async (name, asking) => {
  const server = await start({allow: (_, user) => user.name !== 'system:kube-proxy'});
  const theirs = recorded(name);
  const ours = await ask(server, theirs.path, asking);
  expect({status: ours.status, body: ours.body}).toEqual({status: theirs.status, body: theirs.body});
  expect(ours.headers).toMatchObject({'content-type': 'application/json', 'cache-control': 'no-cache, private'});
  expect(ours.headers['x-content-type-options']).toBe(theirs.headers['x-content-type-options']);
});

test('a refusal in an API group names the group', async () => {
  const server = await start({allow: () => false});
  const {body} = await ask(server, '/apis/discovery.k8s.io/v1/endpointslices');
  expect(body).toMatchObject({
    message: expect.stringContaining('endpointslices.discovery.k8s.io is forbidden: User "admin" cannot list resource "endpointslices"'),
    details: {group: 'discovery.k8s.io', kind: 'endpointslices'},
  });
});

test('pages are as recorded: sorted, of one revision, with the number of remaining items', async () => {
  const [one, two] = [recorded('list-page-1'), recorded('list-page-2')];
  const pages = [one, two];
  const items = pages.flatMap(({body}) => (body as {items: {metadata: {name: string; resourceVersion: string}}[]}).items);
  const more = Array.from({length: 24}, (_, index) => ({metadata: {name: `z-${index}`, namespace: 'shop'}}));
  const server = await start({objects: {endpointslices: [...more, ...items].reverse()}});
  const first = await ask(server, one.path);
  const token = (first.body as {metadata: {continue: string}}).metadata.continue;
  const second = await ask(server, `${one.path}&continue=${token}`);
  for (const [page, recording] of [
    [first, one],
    [second, two],
  ] as const) {
    const {metadata, ...theirs} = recording.body as {metadata: Record<string, unknown>; items: typeof items};
    const ours = page.body as {metadata: Record<string, unknown>; items: typeof items};
    expect(withoutRevisions(ours.items)).toEqual(withoutRevisions(theirs.items));
    expect({...ours, metadata, items: theirs.items}).toEqual(recording.body);
    expect(Object.keys(ours.metadata)).toEqual(Object.keys(metadata));
    expect(ours.metadata['remainingItemCount']).toBe(metadata['remainingItemCount']);
    expect(page.headers['content-length']).toBe(recording.headers['content-length']);
  }
  expect((second.body as {metadata: object}).metadata).toMatchObject({
    resourceVersion: (first.body as {metadata: {resourceVersion: string}}).metadata.resourceVersion,
  });
});

function withoutRevisions(
  items: readonly {readonly metadata: {readonly name: string; readonly resourceVersion: string}}[],
): readonly object[] {
  return items.map(item => ({...item, metadata: {...item.metadata, resourceVersion: ''}}));
}

test('an expired page contains a token to continue', async () => {
  const server = await start({faults: [{kind: 'expire-continue', times: 1}]});
  const theirs = recorded('list-continue-expired');
  const path = theirs.path.replace(/continue=.*/, `continue=${(theirs.body as {metadata: {continue: string}}).metadata.continue}`);
  const ours = await ask(server, path);
  const {metadata, ...body} = ours.body as {metadata: {continue: string}};
  expect({...body, metadata: (theirs.body as {metadata: object}).metadata}).toEqual(theirs.body);
  expect((await ask(server, path.replace(/continue=.*/, `continue=${metadata.continue}`))).status).toBe(200);
});

test.each([
  ['access-review', true],
  ['access-review-denied', false],
])('%s answers whether the user has the permission', async (name, allowed) => {
  const server = await start({allow: () => allowed});
  const theirs = recorded(name);
  const body = {spec: (theirs.body as {spec: object}).spec};
  const ours = await ask(server, theirs.path, {method: 'POST', body});
  expect(ours.status).toBe(theirs.status);
  expect({...(ours.body as object), metadata: {}}).toEqual({...(theirs.body as object), metadata: {}});
});

test('a pod that is created, runs and is deleted has every field of a real one', async () => {
  const server = await start({pods: {startDelay: 0}});
  const [created, running, deleted] = [recorded('pod-create'), recorded('pod-running'), recorded('pod-delete')];
  const {spec} = created.body as {spec: object};
  const metadata = {generateName: 'svc-trace-debug-', labels: {'app.kubernetes.io/managed-by': 'svc-trace'}};
  const made = await ask(server, created.path, {method: 'POST', body: {metadata, spec}});
  const {name} = (made.body as {metadata: {name: string}}).metadata;
  const at = `${created.path}/${name}`;
  await expect.poll(async () => ((await ask(server, at)).body as {status: {phase: string}}).status.phase).toBe('Running');
  const answers = [made, await ask(server, at), await ask(server, `${at}?gracePeriodSeconds=0`, {method: 'DELETE'})];
  for (const [index, theirs] of [created, running, deleted].entries()) {
    expect(answers[index]?.status).toBe(theirs.status);
    expect(fieldsOf(answers[index]?.body)).toEqual(fieldsOf(theirs.body));
  }
  expect(made.body).toMatchObject({status: {phase: 'Pending'}, metadata: {labels: {'topology.kubernetes.io/zone': 'zone-1'}}});
  // Without a grace period it is gone when the answer is there.
  expect((await ask(server, at)).status).toBe(404);
});

/** Every field there is, by its path, but for who wrote which field. */
function fieldsOf(value: unknown, path = ''): readonly string[] {
  if (typeof value !== 'object' || value === null || path === '.metadata.managedFields')
    return path === '.metadata.managedFields' ? [] : [path];
  const entries = Array.isArray(value)
    ? value.map(item => ['[]', item] as const)
    : Object.entries(value).map(([key, item]) => [`.${key}`, item] as const);
  return [...new Set(entries.length === 0 ? [path] : entries.flatMap(([key, item]) => fieldsOf(item, path + key)))].sort();
}

test.each([
  [
    'a program that prints',
    ['sh', '-c', 'echo warning >&2; sleep 0.2; echo out'],
    ['1 ""', '2 "warning\\n"', '1 "out\\n"', '3 {"metadata":{},"status":"Success"}', 'close 1000'],
  ],
  [
    'a program that fails',
    ['sh', '-c', 'echo err >&2; sleep 0.2; echo out; exit 7'],
    [
      '1 ""',
      '2 "err\\n"',
      '1 "out\\n"',
      '3 {"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: command terminated with exit code 7","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}',
      'close 1000',
    ],
  ],
])('%s is streamed frame by frame like by a kubelet', async (_, argv, frames) => {
  const recording = readFileSync(fixture('api-recordings/exec-websocket.txt'), 'utf8');
  // What is expected here is what was recorded.
  for (const frame of frames.filter(text => text.startsWith('3 ')))
    expect(recording).toContain(`channel 3 payload ${JSON.stringify(frame.slice(2))}`);
  const server = await start();
  for (const protocol of ['v5.channel.k8s.io', 'v4.channel.k8s.io'])
    expect(await exec(server, argv, [protocol])).toEqual([protocol, ...frames]);
});

test('a missing program is reported with the message of the container runtime', async () => {
  const recording = readFileSync(fixture('api-recordings/exec-websocket.txt'), 'utf8');
  const [, theirs = ''] = /channel 3 payload "(.*Internal error.*)" …/.exec(recording) ?? [];
  const [, , status = ''] = await exec(await start(), ['no-such-program'], ['v5.channel.k8s.io']);
  const id = /\b(?:[0-9a-f]{8}|[0-9a-f]{64})\b/;
  const ours = JSON.stringify(status.slice(2)).slice(1).replace(id, 'ID');
  expect(ours.startsWith(theirs.replace(id, 'ID'))).toBe(true);
});

test('a pod that does not exist is not found', async () => {
  const [answer = ''] = await exec(await start(), ['ls'], ['v5.channel.k8s.io'], 'nope');
  const recording = readFileSync(fixture('api-recordings/exec-websocket.txt'), 'utf8');
  expect(recording).toContain(`HTTP/1.1 404 Not Found`);
  expect(recording).toContain(`body ${answer.replace(/^404 /, '')}`);
});

/** The protocol, then each frame as `channel payload`, then the close; or the status and body of a refusal. */
function exec(server: ApiServer, argv: readonly string[], protocols: string[], name = pod.metadata.name): Promise<readonly string[]> {
  const query = new URLSearchParams([['stdout', '1'], ['stderr', '1'], ...argv.map(word => ['command', word] as [string, string])]);
  const url = `${server.url.replace(/^https/, 'wss')}/api/v1/namespaces/kube-system/pods/${name}/exec?${query}`;
  const socket = new WebSocket(url, protocols, {ca: certificate('ca.crt'), headers: {authorization: 'Bearer admin-token'}});
  const seen: string[] = [];
  const {promise, resolve, reject} = Promise.withResolvers<readonly string[]>();
  socket.on('open', () => seen.unshift(socket.protocol));
  socket.on('message', (data: Buffer) => {
    const payload = data.subarray(1).toString('utf8');
    seen.push(`${data[0]} ${data[0] === 3 ? payload : JSON.stringify(payload)}`);
  });
  socket.on('close', code => resolve([...seen, `close ${code}`]));
  socket.on('unexpected-response', async (_, response) => {
    const parts: Buffer[] = [];
    for await (const part of response) parts.push(part as Buffer);
    resolve([`${response.statusCode} ${Buffer.concat(parts).toString('utf8')}`]);
  });
  socket.on('error', reject);
  return promise;
}
