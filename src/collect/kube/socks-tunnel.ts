import type {Socket} from 'node:net';
// Imported here and not by `import('socks')`: in the bundle that package has no names of its own for a dynamic import.
import {SocksClient} from 'socks';
import {hostOf} from './choose-proxy.ts';

/** The name is left to the proxy to look up, as Go leaves it. `timeout` is in milliseconds. */
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
