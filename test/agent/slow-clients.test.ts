import {once} from 'node:events';
import {type AddressInfo, connect, type Socket} from 'node:net';
import {setTimeout as sleep} from 'node:timers/promises';
import tls from 'node:tls';
import {afterAll, beforeAll, expect, test} from 'vitest';
import {servePages} from '../../src/agent/agent-server.ts';
import {selfSignedCertificate} from '../../src/agent/self-signed-certificate.ts';

let server: Awaited<ReturnType<typeof servePages>>;
let port = 0;

beforeAll(async () => {
  const page = () => ({status: 200, type: 'text/plain; charset=utf-8' as const, text: 'x'.repeat(50_000_000)});
  server = await servePages({
    pages: {'/long': {isOpen: true, page}},
    gate: null,
    certificate: await selfSignedCertificate(['localhost'], Date.now()),
    listen: {host: '127.0.0.1', port: 0},
  });
  port = (server.address() as AddressInfo).port;
});
afterAll(() => server.close());

/** Whether the agent ends the connection before a timer of 20 s ends, which is as late on a busy machine as those of the agent. */
async function isEnded(socket: Socket): Promise<boolean> {
  const timer = new AbortController();
  socket.on('error', () => {});
  const ended = once(socket, 'close').then(() => true);
  const first = await Promise.race([ended, sleep(20_000, false, timer)]);
  timer.abort();
  return first;
}

async function secure(): Promise<tls.TLSSocket> {
  const socket = tls.connect({host: '127.0.0.1', port, rejectUnauthorized: false});
  await once(socket, 'secureConnect');
  return socket;
}

test('a client that connects and sends nothing is disconnected after five seconds', async () => {
  expect(await isEnded(connect(port, '127.0.0.1').resume())).toBe(true);
});

test('a client that ends the handshake and sends no request is disconnected as well', async () => {
  expect(await isEnded((await secure()).resume())).toBe(true);
});

test('a client that sends its request byte by byte is disconnected as well', async () => {
  const slow = await secure();
  slow.resume().write('GET /long HTTP/1.1\r\n');
  const drip = setInterval(() => slow.writable && slow.write('x'), 200);
  expect(await isEnded(slow)).toBe(true);
  clearInterval(drip);
});

test('a client that does not read the response is disconnected after half a minute', async () => {
  const deaf = await secure();
  deaf.pause().write('GET /long HTTP/1.1\r\nhost: a\r\n\r\n');
  // A client that does not read does not notice the end, but the agent has no connection left.
  await sleep(1000);
  const left = () => new Promise<number>(resolve => server.getConnections((_, count) => resolve(count)));
  expect(await left()).toBe(1);
  await expect.poll(left, {interval: 1000}).toBe(0);
  deaf.destroy();
});
