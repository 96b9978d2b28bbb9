import http from 'node:http';
import https from 'node:https';
import {type AddressInfo, connect, createServer, type Server, type Socket} from 'node:net';
import {onTestFinished} from 'vitest';
import {certificate} from '../../stand-in/certificates.ts';

export interface Proxy {
  readonly port: number;
  /** What was asked of it: the destination, and of an HTTP proxy the Proxy-Authorization. */
  readonly seen: string[];
}

interface HttpProxyOptions {
  /** Refuses with this status. */
  readonly refuse?: number;
  readonly host?: string;
  /** Speaks TLS, with a certificate of the test's authority for localhost and its addresses. */
  readonly secure?: boolean;
}

/** An HTTP proxy that connects, or refuses to with a status. */
export function startProxy(refuse?: number): Promise<Proxy> {
  return startHttpProxy(refuse === undefined ? {} : {refuse});
}

/** An HTTP proxy, as the options say. */
export async function startHttpProxy({refuse, host, secure = false}: HttpProxyOptions = {}): Promise<Proxy> {
  const seen: string[] = [];
  const proxy = secure ? https.createServer({cert: certificate('server.crt'), key: certificate('server.key')}) : http.createServer();
  proxy.on('connect', (request: http.IncomingMessage, client: Socket) => {
    seen.push(`${request.url} ${request.headers['proxy-authorization']}`);
    // An IPv6 address without brackets is no URL, and no destination.
    const destination = URL.parse(`http://${request.url}`);
    if (refuse !== undefined || destination === null) {
      client.end(`HTTP/1.1 ${refuse ?? 400} No\r\n\r\n`);
      return;
    }
    const upstream = connect(Number(destination.port), destination.hostname.replace(/^\[|\]$/g, ''), () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n');
      pipeBothWays(upstream, client);
    });
  });
  return {port: await listen(proxy, host), seen};
}

interface SocksOptions {
  readonly host?: string;
  /** Names that only the proxy can look up. */
  readonly names?: Readonly<Record<string, string>>;
}

/** A SOCKS proxy; resolves to its port. */
export async function startSocks(): Promise<number> {
  return (await startSocksProxy()).port;
}

/** SOCKS 5 without a password: greeting, request, answer. */
export async function startSocksProxy({host, names = {}}: SocksOptions = {}): Promise<Proxy> {
  const seen: string[] = [];
  const proxy = createServer(client => {
    client.once('data', () => {
      client.write(Buffer.from([5, 0]));
      client.once('data', request => {
        const name = destinationOf(request);
        seen.push(name);
        const upstream = connect(request.readUInt16BE(request.length - 2), names[name] ?? name, () => {
          client.write(Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
          pipeBothWays(upstream, client);
        });
      });
    });
  });
  return {port: await listen(proxy, host), seen};
}

/** The fourth byte is the type of the address: 1 IPv4, 3 a name with its length before it, 4 IPv6. */
function destinationOf(request: Buffer): string {
  if (request[3] === 1) return [...request.subarray(4, 8)].join('.');
  if (request[3] === 3) return request.subarray(5, -2).toString('utf8');
  const groups = Array.from({length: 8}, (_, index) => request.readUInt16BE(4 + 2 * index).toString(16));
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1);
}

function pipeBothWays(one: Socket, other: Socket): void {
  one.pipe(other).pipe(one);
  one.on('error', () => other.destroy());
  other.on('error', () => one.destroy());
}

/** Listens on a port of its own until the test has finished, and resolves to the port. */
export async function listen(server: http.Server | Server, host = '127.0.0.1'): Promise<number> {
  await new Promise<void>(resolve => server.listen(0, host, resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}
