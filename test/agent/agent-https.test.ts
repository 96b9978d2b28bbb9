import {once} from 'node:events';
import type http from 'node:http';
import https from 'node:https';
import {type AddressInfo, connect, createServer, type Socket} from 'node:net';
import {text} from 'node:stream/consumers';
import tls from 'node:tls';
import {afterEach, beforeEach, describe, expect, test} from 'vitest';
import {type Admission, type Asking, limitConnections} from '../../src/agent/access-gate.ts';
import {type Pages, replaceCertificate, servePages} from '../../src/agent/agent-server.ts';
import {selfSignedCertificate} from '../../src/agent/self-signed-certificate.ts';
import {certificate} from '../stand-in/certificates.ts';

const secret = 'shop/web has no endpoint 10.244.1.7';
const plain = {status: 200, type: 'text/plain; charset=utf-8' as const};
const pages: Pages = {
  '/result': {isOpen: false, page: () => ({...plain, text: secret})},
  '/healthz': {isOpen: true, page: () => ({...plain, text: 'ok\n'})},
};
let server: http.Server;
let port = 0;
let asked: Asking[] = [];
let answers: number[] = [];
let admission: Admission = 'allowed';

beforeEach(async () => {
  [asked, answers, admission] = [[], [], 'allowed'];
  const gate = {
    admit: async (asking: Asking) => {
      asked.push(asking);
      return asking.token === null ? 'unauthenticated' : admission;
    },
  };
  const pair = await selfSignedCertificate(['localhost'], Date.now());
  server = await servePages({
    pages,
    gate,
    certificate: pair,
    listen: {host: '127.0.0.1', port: 0},
    onAnswer: status => void answers.push(status),
  });
  port = (server.address() as AddressInfo).port;
});
afterEach(() => {
  server.close();
  server.closeAllConnections();
});

async function ask(path: string, headers: http.OutgoingHttpHeaders = {}) {
  const request = https.get({host: '127.0.0.1', port, path, headers, agent: false, rejectUnauthorized: false});
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  return {status: response.statusCode, headers: response.headers, text: await text(response)};
}

/** The outcome of a connection to the port, with TLS or without. */
async function endOf(socket: Socket): Promise<string> {
  socket.resume();
  return Promise.race([
    once(socket, 'error').then(([error]) => (error as NodeJS.ErrnoException).code ?? 'error'),
    once(socket, 'close').then(() => 'closed'),
  ]);
}

const securely = (options: tls.ConnectionOptions = {}) => tls.connect({host: '127.0.0.1', port, rejectUnauthorized: false, ...options});

describe('an agent over TLS', () => {
  test('takes a token from Authorization, or from the header that the proxy of the API server passes on', async () => {
    expect((await ask('/result', {authorization: 'Bearer abc'})).text).toBe(secret);
    expect((await ask('/result?x=1', {'x-svc-trace-authorization': 'bearer def'})).text).toBe(secret);
    expect(asked).toEqual([
      {token: 'abc', path: '/result', client: '127.0.0.1'},
      {token: 'def', path: '/result', client: '127.0.0.1'},
    ]);
    expect(answers).toEqual([200, 200]);
  });

  test.each([{}, {authorization: 'Basic YTpi'}, {authorization: 'Bearer'}, {authorization: ''}, {cookie: 'token=abc'}])(
    'asks for a token if the request has none: %o',
    async headers => {
      const {status, headers: said, text: body} = await ask('/result', headers);
      expect({status, body}).toEqual({status: 401, body: 'a token is needed: "Authorization: Bearer TOKEN"\n'});
      expect(said['www-authenticate']).toBe('Bearer realm="svc-trace-agent"');
    },
  );

  test.each<[Admission, number, string]>([
    ['unauthenticated', 401, 'the API server does not accept this token\n'],
    [
      'forbidden',
      403,
      'the owner of this token may not get /result: a ClusterRole with "nonResourceURLs: [/result]" and "verbs: [get]" is needed\n',
    ],
    ['throttled', 429, 'too many unknown tokens: try again later\n'],
    ['unavailable', 503, 'the API server cannot be asked about this token\n'],
  ])('refuses a client that is %s with the reason, and ends the connection', async (given, status, body) => {
    admission = given;
    const answer = await ask('/result', {authorization: 'Bearer abc'});
    expect({status: answer.status, text: answer.text, connection: answer.headers.connection}).toEqual({
      status,
      text: body,
      connection: 'close',
    });
    expect(answers).toEqual([status]);
  });

  test('requires no token for /healthz or for a path that does not exist', async () => {
    expect(await ask('/healthz')).toMatchObject({status: 200, text: 'ok\n'});
    expect((await ask('/else')).status).toBe(404);
    expect(asked).toEqual([]);
  });

  test('speaks TLS 1.2 and 1.3, and nothing older', async () => {
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const socket = securely({minVersion: version, maxVersion: version});
      await once(socket, 'secureConnect');
      expect(socket.getProtocol()).toBe(version);
      socket.destroy();
    }
    const old = securely({minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0'});
    expect(await endOf(old)).toMatch(/PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL/);
  });

  test('refuses renegotiation', async () => {
    const socket = securely({maxVersion: 'TLSv1.2'});
    await once(socket, 'secureConnect');
    socket.on('error', () => {});
    const refused = await new Promise<Error | null>(resolve => {
      socket.once('error', resolve);
      socket.renegotiate({}, resolve);
    });
    expect((refused as NodeJS.ErrnoException).code).toBe('ERR_SSL_NO_RENEGOTIATION');
  });

  test('closes the connection of a client that speaks plain HTTP', async () => {
    const socket = connect(port, '127.0.0.1').end('GET /result HTTP/1.1\r\nhost: a\r\n\r\n');
    expect(await text(socket)).toBe('');
  });

  test('presents a new certificate on new connections', async () => {
    replaceCertificate(server, {cert: certificate('elsewhere.crt'), key: certificate('elsewhere.key')});
    const socket = securely();
    await once(socket, 'secureConnect');
    expect(socket.getPeerCertificate().subjectaltname).toBe('DNS:elsewhere.example');
    socket.destroy();
    expect(await endOf(securely({minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0'}))).not.toBe('closed');
  });
});

describe('a client', () => {
  test('that opens many connections gets some, and the others are closed at once', async () => {
    const sockets = Array.from({length: 50}, () => connect(port, '127.0.0.1'));
    const ended = sockets.map(socket => endOf(socket));
    await Promise.all(ended.slice(32));
    expect(sockets.filter(({destroyed}) => !destroyed)).toHaveLength(32);
    for (const socket of sockets) socket.destroy();
    await Promise.all(ended);
    await expect.poll(async () => (await ask('/healthz').catch(() => null))?.status).toBe(200);
  });

  test('on the node itself, such as the kubelet, is answered while others hold all of their connections', async () => {
    const others = [2, 3, 4, 5, 6, 7, 8, 9].flatMap(last =>
      Array.from({length: 32}, () => connect({port, host: '127.0.0.1', localAddress: `127.0.0.${last}`})),
    );
    const ended = others.map(socket => endOf(socket));
    const held = () => others.filter(({destroyed}) => !destroyed).length;
    await expect.poll(held).toBe(128);
    expect((await ask('/healthz')).status).toBe(200);
    expect(held()).toBe(128);
    for (const socket of others) socket.destroy();
    await Promise.all(ended);
  });

  test('that connects repeatedly is admitted sixty times, and then twenty times a second', async () => {
    let now = 0;
    const limited = createServer(socket => socket.end('hello'));
    limitConnections(limited, () => now);
    await new Promise<void>(resolve => limited.listen(0, '127.0.0.1', resolve));
    const {port: at} = limited.address() as AddressInfo;
    const visit = async () => (await text(connect(at, '127.0.0.1').on('error', () => {})).catch(() => '')) === 'hello';
    const visits = async (count: number) => {
      let welcome = 0;
      for (let tries = 0; tries < count; tries++) welcome += Number(await visit());
      return welcome;
    };
    expect(await visits(80)).toBe(60);
    now = 1000;
    expect(await visits(40)).toBe(20);
    limited.close();
  });
});
