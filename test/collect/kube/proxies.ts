import http from 'node:http';
import {type AddressInfo, connect, createServer, type Server, type Socket} from 'node:net';
import {onTestFinished} from 'vitest';

/** An HTTP proxy that connects, or refuses to with a status; `seen` is what was asked of it, with the Proxy-Authorization. */
export async function startProxy(refuse?: number): Promise<{port: number; seen: string[]}> {
  const seen: string[] = [];
  const proxy = http.createServer();
  proxy.on('connect', (request: http.IncomingMessage, client: Socket) => {
    seen.push(`${request.url} ${request.headers['proxy-authorization']}`);
    if (refuse !== undefined) {
      client.end(`HTTP/1.1 ${refuse} No\r\n\r\n`);
      return;
    }
    const {hostname, port} = new URL(`http://${request.url}`);
    const upstream = connect(Number(port), hostname, () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n');
      pipeBothWays(upstream, client);
    });
  });
  return {port: await listen(proxy), seen};
}

/** SOCKS 5 without a password, for IPv4: greeting, request, answer. */
export async function startSocks(): Promise<number> {
  return listen(
    createServer(client => {
      client.once('data', () => {
        client.write(Buffer.from([5, 0]));
        client.once('data', request => {
          const upstream = connect(request.readUInt16BE(8), [...request.subarray(4, 8)].join('.'), () => {
            client.write(Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
            pipeBothWays(upstream, client);
          });
        });
      });
    }),
  );
}

function pipeBothWays(one: Socket, other: Socket): void {
  one.pipe(other).pipe(one);
  one.on('error', () => other.destroy());
  other.on('error', () => one.destroy());
}

/** Listens on a port of its own until the test has finished, and resolves to the port. */
export async function listen(server: http.Server | Server): Promise<number> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}
