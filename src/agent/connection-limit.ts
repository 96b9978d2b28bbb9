import type {Server, Socket} from 'node:net';
import {clientName} from './client-name.ts';
import {RateLimit} from './rate-limit.ts';

/** Open connections of one client, and of all. One client alone cannot block the kubelet's probes. */
const [maxOfOne, maxOfAll] = [32, 128];

/** New connections: a TLS handshake takes a millisecond of CPU. */
const [ofOne, ofAll] = [
  {perSecond: 20, burst: 60},
  {perSecond: 100, burst: 200},
] as const;

/** Closes connections beyond the limits before the TLS handshake. `now` is monotonic, in milliseconds. */
export function limitConnections(server: Server, now: () => number = () => performance.now()): void {
  const open = new Map<string, number>();
  const perClient = new RateLimit(ofOne);
  const perAll = new RateLimit(ofAll);
  server.maxConnections = maxOfAll;
  // TLS and HTTP see accepted connections only, so that a refused one costs little.
  const accept = server.listeners('connection');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    const client = clientName(socket.remoteAddress);
    const count = (open.get(client) ?? 0) + 1;
    if (count > maxOfOne || !perClient.take(client, now()) || !perAll.take('', now())) {
      socket.destroy();
      return;
    }
    open.set(client, count);
    socket.once('close', () => {
      const left = (open.get(client) ?? 1) - 1;
      if (left === 0) open.delete(client);
      else open.set(client, left);
    });
    for (const listener of accept) listener.call(server, socket);
  });
}
