import type {Socket} from 'node:net';
// Not `import('socks')`: in the bundle, a dynamic import of that package has no named exports.
import {SocksClient} from 'socks';
import {hostOf} from './choose-proxy.ts';

/** The proxy resolves the host name, as with Go. `timeout` is in milliseconds. */
export async function throughSocks(
  proxy: URL,
  {host, port}: {readonly host: string; readonly port: number},
  timeout: number,
): Promise<Socket> {
  const {socket} = await SocksClient.createConnection({
    command: 'connect',
    destination: {host, port},
    proxy: {
      type: 5,
      host: hostOf(proxy),
      port: Number(proxy.port || 1080),
      ...(proxy.username === '' ? {} : {userId: decodeURIComponent(proxy.username), password: decodeURIComponent(proxy.password)}),
    },
    timeout,
  });
  return socket;
}
