import {writeFileSync} from 'node:fs';
import http from 'node:http';
import {join} from 'node:path';
import process from 'node:process';
import {describe, expect, onTestFinished, test, vi} from 'vitest';
import type {ConnectionFlags} from '../../../src/collect/kube/kubeconfig.ts';
import {createKubeApi, type KubeApiOptions} from '../../../src/collect/kube/create-kube-api.ts';
import {ApiError, type KubeApi} from '../../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {CommandFailed} from '../../../src/collect/node/transport.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../../stand-in/api-server.ts';
import {folderWith, kubeconfig} from './files.ts';
import {listen, startProxy} from './proxies.ts';
import {WebSocketServer} from 'ws';

const pod = {metadata: {name: 'kube-proxy-a', namespace: 'kube-system'}, spec: {nodeName: 'node-a'}, status: {phase: 'Running'}};
const target = {namespace: 'kube-system', pod: 'kube-proxy-a', container: 'kube-proxy'};
const never = new AbortController().signal;

async function start(options: ApiServerOptions = {}): Promise<ApiServer> {
  const server = await startApiServer({objects: {pods: [pod]}, ...options});
  onTestFinished(() => server.close());
  return server;
}

function open(server: ApiServer, options: KubeApiOptions = {}, flags: ConnectionFlags = {}): KubeApi {
  const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig, ...flags}, {environment: {}}), {backoff: 5, ...options});
  onTestFinished(() => api.close());
  return api;
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('a command in a pod', () => {
  test('resolves to its stdout, and gets its arguments unchanged', async () => {
    const server = await start();
    const words = ['printf', '%s|', 'a b', '$(id)', "it's", 'ü', ''];
    expect((await open(server).exec(target, words, never)).toString()).toBe("a b|$(id)|it's|ü||");
    expect(server.requests[0]).toMatchObject({path: '/api/v1/namespaces/kube-system/pods/kube-proxy-a/exec', argv: words});
    expect(server.requests[0]?.query.get('container')).toBe('kube-proxy');
    expect(server.requests[0]?.headers['sec-websocket-protocol']).toBe('v5.channel.k8s.io,v4.channel.k8s.io');
  });

  test('may print large output, which arrives byte for byte', async () => {
    const stdout = Buffer.alloc(
      5_000_000,
      Uint8Array.from({length: 256}, (_, index) => index),
    );
    expect((await open(await start({exec: () => ({stdout})})).exec(target, ['cat'], never)).equals(stdout)).toBe(true);
  });

  test('passes its output on while it arrives, and stores none of it', async () => {
    const parts: Buffer[] = [];
    const words = ['printf', '%s', 'one two'];
    const rest = await open(await start()).exec(target, words, never, part => void parts.push(part));
    expect({taken: Buffer.concat(parts).toString(), rest: rest.length}).toEqual({taken: 'one two', rest: 0});
  });

  test('that ends with an error rejects with its exit code and stderr', async () => {
    const error = await failureOf(open(await start()).exec(target, ['sh', '-c', 'echo out; echo err >&2; exit 7'], never));
    expect(error).toBeInstanceOf(CommandFailed);
    expect(error).toMatchObject({exitCode: 7, stderr: 'err\n', notFound: false});
  });

  test.each(['no-such-program', '/no/such/program'])('%s is missing, which is distinguished from a failed one', async program => {
    const error = await failureOf(open(await start()).exec(target, [program], never));
    expect(error).toBeInstanceOf(CommandFailed);
    expect(error).toMatchObject({exitCode: null, notFound: true});
  });

  test('that is aborted closes its stream', async () => {
    const server = await start();
    const stop = new AbortController();
    const running = failureOf(open(server).exec(target, ['sleep', '60'], stop.signal));
    await expect.poll(server.streams, {interval: 5}).toBe(1);
    stop.abort(new Error('enough'));
    expect(await running).toMatchObject({name: 'CommandFailed', exitCode: null, cause: {message: 'enough'}});
    await expect.poll(server.streams, {interval: 5}).toBe(0);
  });

  test('that never ends is stopped by a timeout', async () => {
    const server = await start({faults: [{kind: 'hang'}]});
    const error = await failureOf(open(server).exec(target, ['iptables-save'], AbortSignal.timeout(100)));
    expect(error).toMatchObject({name: 'CommandFailed', exitCode: null, cause: {name: 'TimeoutError'}});
  });

  test('runs with the same credentials as any other request', async () => {
    const server = await start({tokens: {fresh: {user: 'ann'}}});
    const folder = folderWith({token: 'stale'});
    const cluster = {server: server.url, 'certificate-authority': server.ca};
    writeFileSync(join(folder, 'config'), JSON.stringify(kubeconfig('a', {cluster, user: {token: '', tokenFile: 'token', as: 'eve'}})));
    const connection = loadConnection({kubeconfig: join(folder, 'config')}, {environment: {}});
    const renew = connection.credentials.renew;
    vi.spyOn(connection.credentials, 'renew').mockImplementation(refused => {
      writeFileSync(join(folder, 'token'), 'fresh');
      return renew(refused);
    });
    const api = createKubeApi(connection);
    onTestFinished(() => api.close());
    expect((await api.exec(target, ['echo', 'a'], never)).toString()).toBe('a\n');
    expect(server.requests.map(({user}) => user?.name ?? null)).toEqual([null, 'eve']);
  });

  test('is run through a proxy', async () => {
    const server = await start();
    const proxy = await startProxy();
    expect((await open(server, {}, {'proxy-url': `http://127.0.0.1:${proxy.port}`}).exec(target, ['echo', 'a'], never)).toString()).toBe(
      'a\n',
    );
    expect(proxy.seen).toHaveLength(1);
  });

  test('that is aborted before its start does not run', async () => {
    const server = await start();
    expect(await failureOf(open(server).exec(target, ['true'], AbortSignal.abort()))).toBeInstanceOf(CommandFailed);
    expect(server.requests).toEqual([]);
  });

  test('ends when the client is closed', async () => {
    const server = await start();
    const api = open(server);
    const running = failureOf(api.exec(target, ['sleep', '60'], never));
    await expect.poll(server.streams, {interval: 5}).toBe(1);
    api.close();
    expect(await running).toBeInstanceOf(CommandFailed);
  });

  test.each([
    ['with nothing', false],
    ['with a close frame', true],
  ])('whose stream ends early %s is an error, never a short output', async (_, clean) => {
    const server = await start({exec: () => ({stdout: 'x'.repeat(100_000)}), faults: [{kind: 'cut-exec', after: 50_000, clean}]});
    const error = await failureOf(open(server).exec(target, ['iptables-save'], never));
    expect(error).toBeInstanceOf(ApiError);
    expect(String(error)).toMatch(/closed \(\d+\) before iptables-save had ended: what it printed is not complete/);
  });

  test('whose output is complete and whose Status is missing is an error as well', async () => {
    const server = await start({exec: () => ({stdout: 'abc'}), faults: [{kind: 'cut-exec', after: 1000, clean: true}]});
    expect(await failureOf(open(server).exec(target, ['iptables-save'], never))).toBeInstanceOf(ApiError);
  });
});

describe('a stream that does not open', () => {
  test('a pod that does not exist is an ApiError', async () => {
    const error = await failureOf(open(await start()).exec({...target, pod: 'nope'}, ['true'], never));
    expect(error).toMatchObject({name: 'ApiError', status: 404, reason: 'NotFound'});
    expect(String(error)).toContain('cannot exec into kube-system/nope: not found: pods "nope" not found');
  });

  test('a missing permission for exec is reported', async () => {
    const server = await start({allow: ({subresource}) => subresource !== 'exec'});
    const error = await failureOf(open(server).exec(target, ['true'], never));
    expect(error).toMatchObject({status: 403, reason: 'Forbidden'});
    expect(String(error)).toMatch(
      /not allowed to exec into kube-system\/kube-proxy-a: .*cannot create resource "pods\/exec".*svc-trace access/,
    );
  });

  test('an unreachable kubelet is distinguished from an unreachable API server', async () => {
    const message = 'error dialing backend: dial tcp 172.18.0.11:10250: i/o timeout';
    const server = await start({faults: [{kind: 'status', status: 500, message}]});
    await expect(open(server).exec(target, ['true'], never)).rejects.toThrow(/the API server does not reach the kubelet of that node/);
    expect(server.requests).toHaveLength(1);
  });

  test('is requested again if the API server is too busy', async () => {
    const server = await start({faults: [{kind: 'status', status: 429, retryAfter: 0, times: 2}]});
    expect((await open(server).exec(target, ['echo', 'a'], never)).toString()).toBe('a\n');
  });

  test('a connection that breaks is an error', async () => {
    const server = await start({faults: [{kind: 'reset'}]});
    await expect(open(server).exec(target, ['true'], never)).rejects.toBeInstanceOf(ApiError);
  });

  test('--request-timeout limits the wait for it', async () => {
    const server = await start({faults: [{kind: 'slow', delay: 5000}]});
    await expect(open(server, {requestTimeout: 100}).exec(target, ['true'], never)).rejects.toThrow(
      /cannot exec into kube-system\/kube-proxy-a/,
    );
  });

  test('checks the certificate as any other request does', async () => {
    const server = await start({certificate: 'elsewhere'});
    await expect(open(server).exec(target, ['true'], never)).rejects.toThrow(
      /the certificate of 127\.0\.0\.1:\d+ is for DNS:elsewhere\.example, and not for 127\.0\.0\.1/,
    );
    expect((await open(server, {}, {'tls-server-name': 'elsewhere.example'}).exec(target, ['echo', 'a'], never)).toString()).toBe('a\n');
  });
});

describe('an invalid stream', () => {
  const status = (value: unknown) =>
    Buffer.concat([Buffer.from([3]), Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))]);
  const success = status({metadata: {}, status: 'Success'});

  /** What an exec comes to of which these frames are sent before the stream is closed. */
  async function afterFrames(...frames: readonly (Buffer | string)[]): Promise<unknown> {
    const server = http.createServer();
    const sockets = new WebSocketServer({server, handleProtocols: () => 'v5.channel.k8s.io'});
    sockets.on('connection', socket => {
      for (const frame of frames) socket.send(frame);
      socket.close(1000);
    });
    const port = await listen(server);
    const api = createKubeApi(loadConnection({server: `http://127.0.0.1:${port}`}, {environment: {HOME: '/nonexistent'}}));
    onTestFinished(() => api.close());
    return api.exec(target, ['iptables-save'], never).then(String, (error: unknown) => error);
  }

  test.each([
    ['is not JSON', '{"status":"Succ'],
    ['is null', null],
    ['is a string', '"Success"'],
    ['is a list', []],
    ['has a status that is not a string', {status: 1}],
    ['has no status', {}],
  ])('is an error where the Status %s', async (_, value) => {
    const error = await afterFrames(Buffer.from('\x01rules'), status(value));
    expect(error).toBeInstanceOf(ApiError);
    expect(String(error)).toMatch(/the Status at the end of iptables-save is invalid: what it printed is not complete/);
  });

  test.each([
    ['details is null', {details: null}],
    ['causes is not a list', {details: {causes: 7}}],
    ['a cause is null', {details: {causes: [null]}}],
    ['the exit code is not a number', {details: {causes: [{reason: 'ExitCode', message: {}}]}}],
    ['the message is not a string', {message: {a: 1}}],
  ])('is an error where the Status is a failure and %s', async (_, more) => {
    const error = await afterFrames(status({status: 'Failure', reason: 'NonZeroExitCode', message: 'it failed', ...more}));
    expect(error).toBeInstanceOf(ApiError);
    expect(String(error)).toMatch(/cannot run iptables-save in the container/);
  });

  test('ignores frames without a channel, and of channels that were not requested', async () => {
    const ignored = [Buffer.alloc(0), Buffer.from([255]), Buffer.from([255, 1]), Buffer.from([9, 65]), 'text', '\u00ff\u0001'];
    expect(await afterFrames(...ignored, Buffer.from('\x01rules'), success)).toBe('rules');
    expect(process.stdout.writableEnded).toBe(false);
  });
});

describe('a credential that the API server refuses', () => {
  /** A kubeconfig with a plugin that gives token-1 the first time, token-2 the second, and so on. */
  function countingPlugin(server: ApiServer): string {
    const exec = {apiVersion: 'client.authentication.k8s.io/v1', command: './plugin', interactiveMode: 'Never'};
    const script = `#!/bin/sh
      echo >> "$(dirname "$0")/runs"
      echo '{"kind":"ExecCredential","apiVersion":"${exec.apiVersion}","status":{"token":"token-'$(wc -l < "$(dirname "$0")/runs" | tr -d ' ')'"}}'`;
    const cluster = {server: server.url, 'certificate-authority': server.ca};
    return join(folderWith({config: kubeconfig('a', {cluster, user: {token: '', exec}}), plugin: script}), 'config');
  }

  function openWith(config: string): KubeApi {
    const api = createKubeApi(loadConnection({kubeconfig: config}, {environment: {PATH: process.env['PATH']}, interactive: false}));
    onTestFinished(() => api.close());
    return api;
  }

  test('is renewed once for an exec, which then succeeds', async () => {
    const server = await start({tokens: {'token-2': {user: 'ann'}}});
    const api = openWith(countingPlugin(server));
    expect((await api.exec(target, ['echo', 'a'], never)).toString()).toBe('a\n');
    expect(server.requests.map(({headers}) => headers.authorization)).toEqual(['Bearer token-1', 'Bearer token-2']);
  });

  test('is renewed once, and a second refusal is an error', async () => {
    const server = await start();
    const api = openWith(countingPlugin(server));
    await expect(api.exec(target, ['true'], never)).rejects.toMatchObject({name: 'ApiError', status: 401});
    await expect(api.get('/version')).rejects.toThrow(/does not accept the credential plugin \.*.*plugin.*The token has expired/);
    expect(server.requests.map(({headers}) => headers.authorization)).toEqual(
      ['token-1', 'token-2', 'token-2', 'token-3'].map(token => `Bearer ${token}`),
    );
  });

  test('is renewed once for many execs at the same time', async () => {
    const server = await start({tokens: {'token-2': {user: 'ann'}}});
    const api = openWith(countingPlugin(server));
    const all = await Promise.all(Array.from({length: 5}, () => api.exec(target, ['echo', 'a'], never)));
    expect(all.map(String)).toEqual(Array(5).fill('a\n'));
    expect(new Set(server.requests.map(({headers}) => headers.authorization))).toEqual(new Set(['Bearer token-1', 'Bearer token-2']));
  });
});
