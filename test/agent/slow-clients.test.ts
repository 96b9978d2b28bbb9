import {once} from 'node:events';
import {type AddressInfo, connect, type Socket} from 'node:net';
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

/** Resolves to the seconds until the agent ends the connection. */
async function secondsOf(socket: Socket): Promise<number> {
  const begun = Date.now();
  socket.on('error', () => {});
  await once(socket, 'close');
  return (Date.now() - begun) / 1000;
}

async function secure(): Promise<tls.TLSSocket> {
  const socket = tls.connect({host: '127.0.0.1', port, rejectUnauthorized: false});
  await once(socket, 'secureConnect');
  return socket;
}

test('a client that connects and sends nothing is disconnected after five seconds', async () => {
  expect(await secondsOf(connect(port, '127.0.0.1').resume())).toBeLessThan(8);
});

test('a client that ends the handshake and sends no request is disconnected as well', async () => {
  expect(await secondsOf((await secure()).resume())).toBeLessThan(8);
});

test('a client that sends its request byte by byte is disconnected as well', async () => {
  const slow = await secure();
  slow.resume().write('GET /long HTTP/1.1\r\n');
  const drip = setInterval(() => slow.writable && slow.write('x'), 200);
  expect(await secondsOf(slow)).toBeLessThan(9);
  clearInterval(drip);
});

test('a client that does not read the response is disconnected after half a minute', async () => {
  const deaf = await secure();
  deaf.pause().write('GET /long HTTP/1.1\r\nhost: a\r\n\r\n');
  // A client that does not read does not notice the end, but the agent has no connection left.
  await new Promise(resolve => setTimeout(resolve, 1000));
  const left = () => new Promise<number>(resolve => server.getConnections((_, count) => resolve(count)));
  expect(await left()).toBe(1);
  await expect.poll(left, {timeout: 45_000, interval: 1000}).toBe(0);
  deaf.destroy();
});
