import {connect} from 'node:net';
import type {AddressInfo} from 'node:net';
import {text} from 'node:stream/consumers';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {servePages, parseListenAddress} from '../../src/agent/agent-server.ts';

const long = 'x'.repeat(10_000);
let server: Awaited<ReturnType<typeof servePages>>;
let port: number;

beforeAll(async () => {
  const pages = {
    '/long': {isOpen: false, page: () => ({status: 200, type: 'application/json' as const, text: long})},
    '/no': {isOpen: true, page: () => ({status: 503, type: 'text/plain; charset=utf-8' as const, text: 'not yet\n'})},
  };
  server = await servePages({pages, listen: {host: '127.0.0.1', port: 0}, certificate: null, gate: null});
  port = (server.address() as AddressInfo).port;
});
afterAll(() => void server.close());

/** What it answers to these bytes, until it closes the connection. */
function raw(bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(bytes);
  return text(socket);
}

const ask = (path: string, init: RequestInit = {}) => fetch(`http://127.0.0.1:${port}${path}`, init);

describe('an agent answers', () => {
  test('with a page, whatever the query', async () => {
    const answer = await ask('/no?x=1');
    expect({status: answer.status, text: await answer.text(), type: answer.headers.get('content-type')}).toEqual({
      ...{status: 503, text: 'not yet\n', type: 'text/plain; charset=utf-8'},
    });
  });

  test('with compression if the client accepts it and the page is large enough', async () => {
    const answer = await ask('/long');
    expect({encoding: answer.headers.get('content-encoding'), text: await answer.text()}).toEqual({encoding: 'gzip', text: long});
    expect((await ask('/long', {headers: {'accept-encoding': 'identity'}})).headers.get('content-length')).toBe('10000');
    expect((await ask('/no')).headers.get('content-encoding')).toBeNull();
  });

  test('HEAD without a body', async () => {
    const answer = await ask('/long', {method: 'HEAD', headers: {'accept-encoding': 'identity'}});
    expect({length: answer.headers.get('content-length'), text: await answer.text()}).toEqual({length: '10000', text: ''});
  });

  test.each(['POST', 'PUT', 'DELETE'])('%s with a refusal, and does not read the body', async method => {
    const answer = await ask('/long', {method, body: 'x'.repeat(100_000)});
    expect({status: answer.status, allow: answer.headers.get('allow')}).toEqual({status: 405, allow: 'GET, HEAD'});
    expect(answer.headers.get('connection')).toBe('close');
  });

  test.each(['/', '/../etc/passwd', '/__proto__', '/toString'])('404 for %s', async path => {
    expect((await ask(path)).status).toBe(404);
  });

  test('431 for endless headers', async () => {
    expect(await raw(`GET /no HTTP/1.1\r\nhost: a\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`)).toMatch(/^HTTP\/1.1 431 /);
  });

  test('400 for a request that is not HTTP', async () => {
    expect(await raw('hello\r\n\r\n')).toMatch(/^HTTP\/1.1 400 /);
  });
});

test('a port in use is an error', async () => {
  await expect(servePages({pages: {}, listen: {host: '127.0.0.1', port}, certificate: null, gate: null})).rejects.toThrow('EADDRINUSE');
});

describe('the address to listen on', () => {
  test.each([
    [':10270', null, 10_270],
    ['10.0.0.7:80', '10.0.0.7', 80],
    ['[fd00::7]:80', 'fd00::7', 80],
    ['fd00::7:80', 'fd00::7', 80],
    ['localhost:0', 'localhost', 0],
  ])('%s', (given, host, expected) => {
    expect(parseListenAddress(given)).toEqual({host, port: expected});
  });

  test.each(['', '10270', '10.0.0.7', ':70000', '[::1]', 'http://a:80', ': 80', 'a:-1'])('%s is invalid', given => {
    expect(parseListenAddress(given)).toBeNull();
  });
});
