import http from 'node:http';
import {describe, expect, onTestFinished, test} from 'vitest';
import type {ConnectionFlags} from '../../../src/collect/kube/kubeconfig.ts';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import type {KubeApi} from '../../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../../stand-in/api-server.ts';
import {listen, startHttpProxy, startSocksProxy} from './proxies.ts';

const pod = {metadata: {name: 'kube-proxy-a', namespace: 'kube-system'}, spec: {nodeName: 'node-a'}, status: {phase: 'Running'}};
const target = {namespace: 'kube-system', pod: 'kube-proxy-a', container: 'kube-proxy'};

async function start(options: ApiServerOptions = {}): Promise<ApiServer> {
  const server = await startApiServer({objects: {pods: [pod]}, ...options});
  onTestFinished(() => server.close());
  return server;
}

function open(kubeconfig: string, flags: ConnectionFlags = {}, environment: NodeJS.ProcessEnv = {}): KubeApi {
  const api = createKubeApi(loadConnection({kubeconfig, ...flags}, {environment, interactive: false}), {backoff: 5});
  onTestFinished(() => api.close());
  return api;
}

async function printed(api: KubeApi): Promise<string> {
  return (await api.exec(target, ['echo', 'a'], new AbortController().signal)).toString();
}

describe('an HTTP proxy', () => {
  test('carries requests and execs to an API server with an IPv6 address', async () => {
    const server = await start({host: '::1'});
    const proxy = await startHttpProxy();
    const api = open(server.kubeconfig, {'proxy-url': `http://127.0.0.1:${proxy.port}`});
    expect(await api.get('/version')).toMatchObject({major: '1'});
    expect(await printed(api)).toBe('a\n');
    // The exec takes the connection that the request left.
    expect(proxy.seen).toEqual([`${new URL(server.url).host} undefined`]);
  });

  test('may itself have an IPv6 address', async () => {
    const server = await start();
    const proxy = await startHttpProxy({host: '::1'});
    expect(await open(server.kubeconfig, {'proxy-url': `http://[::1]:${proxy.port}`}).get('/version')).toMatchObject({major: '1'});
    expect(proxy.seen).toHaveLength(1);
  });

  test('may speak TLS, with a certificate of the authority of the cluster', async () => {
    const server = await start();
    const proxy = await startHttpProxy({secure: true});
    for (const name of ['localhost', '127.0.0.1'])
      expect(await open(server.kubeconfig, {'proxy-url': `https://${name}:${proxy.port}`}).get('/version')).toMatchObject({major: '1'});
    expect(proxy.seen).toHaveLength(2);
  });

  test('that speaks TLS with an untrusted certificate is refused', async () => {
    const server = await start();
    const proxy = await startHttpProxy({secure: true});
    const flags = {'proxy-url': `https://localhost:${proxy.port}`, 'insecure-skip-tls-verify': true};
    await expect(open(server.kubeconfig, flags).get('/version')).rejects.toThrow(/the proxy https:\/\/localhost:\d+ does not connect to/);
    expect(proxy.seen).toEqual([]);
  });

  test('keeps its connection for the next request', async () => {
    const server = await start();
    const proxy = await startHttpProxy();
    const api = open(server.kubeconfig, {'proxy-url': `http://127.0.0.1:${proxy.port}`});
    for (let count = 0; count < 3; count++) await api.get('/version');
    expect(proxy.seen).toHaveLength(1);
    expect(server.connections()).toBe(1);
  });

  test('carries requests to an API server without TLS', async () => {
    const port = await listen(http.createServer((_, response) => response.end('{"major":"1"}')));
    const proxy = await startHttpProxy();
    const api = open('', {server: `http://127.0.0.1:${port}`, 'proxy-url': `http://127.0.0.1:${proxy.port}`}, {HOME: '/nonexistent'});
    expect(await api.get('/version')).toEqual({major: '1'});
    expect(proxy.seen).toEqual([`127.0.0.1:${port} undefined`]);
  });

  test('that is down is distinguished from an API server that is down', async () => {
    const server = await start();
    await expect(open(server.kubeconfig, {'proxy-url': 'http://127.0.0.1:1'}).get('/version')).rejects.toThrow(
      /the proxy http:\/\/127\.0\.0\.1:1 does not connect to 127\.0\.0\.1:\d+: .*ECONNREFUSED/,
    );
    expect(server.requests).toEqual([]);
  });
});

describe('a SOCKS proxy', () => {
  test('carries requests and execs', async () => {
    const server = await start();
    const proxy = await startSocksProxy();
    const api = open(server.kubeconfig, {'proxy-url': `socks5://127.0.0.1:${proxy.port}`});
    expect(await api.get('/version')).toMatchObject({major: '1'});
    expect(await printed(api)).toBe('a\n');
    expect(proxy.seen).toEqual(['127.0.0.1']);
  });

  test.each(['socks5', 'socks5h'])('resolves names itself (%s)', async scheme => {
    const server = await start({certificate: 'elsewhere'});
    const proxy = await startSocksProxy({names: {'elsewhere.example': '127.0.0.1'}});
    const api = open(server.kubeconfig, {
      server: `https://elsewhere.example:${new URL(server.url).port}`,
      'certificate-authority': server.ca,
      'proxy-url': `${scheme}://127.0.0.1:${proxy.port}`,
    });
    expect(await api.get('/version')).toMatchObject({major: '1'});
    expect(proxy.seen).toEqual(['elsewhere.example']);
  });

  test('does not change which name or address the certificate must have', async () => {
    const server = await start({certificate: 'elsewhere'});
    const proxy = await startSocksProxy();
    await expect(open(server.kubeconfig, {'proxy-url': `socks5://localhost:${proxy.port}`}).get('/version')).rejects.toThrow(
      /the certificate of 127\.0\.0\.1:\d+ is for DNS:elsewhere\.example, and not for 127\.0\.0\.1/,
    );
  });

  test('and the API server may have IPv6 addresses', async () => {
    const server = await start({host: '::1'});
    const proxy = await startSocksProxy({host: '::1'});
    expect(await open(server.kubeconfig, {'proxy-url': `socks5://[::1]:${proxy.port}`}).get('/version')).toMatchObject({major: '1'});
    expect(proxy.seen).toEqual(['::1']);
  });
});

describe('the environment', () => {
  test('names the proxy, and NO_PROXY the API servers that are reached directly', async () => {
    const server = await start({certificate: 'elsewhere'});
    const proxy = await startSocksProxy({names: {'elsewhere.example': '127.0.0.1'}});
    const flags = {server: `https://elsewhere.example:${new URL(server.url).port}`, 'certificate-authority': server.ca};
    const environment = {HTTPS_PROXY: `socks5://127.0.0.1:${proxy.port}`};
    expect(await open(server.kubeconfig, flags, environment).get('/version')).toMatchObject({major: '1'});
    const direct = open(server.kubeconfig, flags, {...environment, NO_PROXY: '.example'});
    await expect(direct.get('/version')).rejects.toThrow(/elsewhere\.example cannot be resolved/);
    expect(proxy.seen).toEqual(['elsewhere.example']);
  });
});
