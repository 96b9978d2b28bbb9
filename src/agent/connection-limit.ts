import type {Server, Socket} from 'node:net';
import ipaddr from 'ipaddr.js';

/** Open connections of one client, and of all but the node itself. */
const [maxOfOne, maxOfAll] = [32, 128];

/** New connections: a TLS handshake takes a millisecond of CPU. */
const [ofOne, ofAll] = [
  {perSecond: 20, burst: 60},
  {perSecond: 100, burst: 200},
] as const;

/**
 * Closes connections beyond the limits before the TLS handshake. The node itself has the limits of one client, and room of its own: other
 * clients cannot keep the kubelet's probes out. `now` is monotonic, in milliseconds.
 */
export function limitConnections(server: Server, now: () => number = () => performance.now()): void {
  const open = new Map<string, number>();
  const perClient = new RateLimit(ofOne);
  const perAll = new RateLimit(ofAll);
  let others = 0;
  server.maxConnections = maxOfAll + maxOfOne;
  // TLS and HTTP see accepted connections only, so that a refused one costs little.
  const accept = server.listeners('connection');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    const client = clientName(socket.remoteAddress);
    const count = (open.get(client) ?? 0) + 1;
    // An agent is in the host network, where the kubelet's probe comes from the address that it goes to.
    const isOwn = socket.remoteAddress !== undefined && socket.remoteAddress === socket.localAddress;
    const isAdmitted = () => isOwn || (others < maxOfAll && perAll.take('', now()));
    if (count > maxOfOne || !perClient.take(client, now()) || !isAdmitted()) {
      socket.destroy();
      return;
    }
    open.set(client, count);
    if (!isOwn) others++;
    socket.once('close', () => {
      if (!isOwn) others--;
      const left = (open.get(client) ?? 1) - 1;
      if (left === 0) open.delete(client);
      else open.set(client, left);
    });
    for (const listener of accept) listener.call(server, socket);
  });
}

/** The client that limits apply to: an IPv4 address or an IPv6 /64, in which one machine can use any address. */
export function clientName(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return '';
  const parsed = ipaddr.process(address);
  return parsed.kind() === 'ipv4'
    ? parsed.toString()
    : (parsed as ipaddr.IPv6).parts
        .slice(0, 4)
        .map(part => part.toString(16))
        .join(':');
}

interface RateLimitOptions {
  readonly perSecond: number;
  /** The size of a bucket. */
  readonly burst: number;
  /** The maximum number of buckets. The least recently used one is dropped first. */
  readonly clients?: number;
}

/** A token bucket for each client. */
export class RateLimit {
  readonly #options: Required<RateLimitOptions>;
  readonly #buckets = new Map<string, {readonly left: number; readonly at: number}>();

  constructor({clients = 1024, ...options}: RateLimitOptions) {
    this.#options = {...options, clients};
  }

  /** Takes a token from the client's bucket; false if it is empty. `now` is monotonic, in milliseconds. */
  take(client: string, now: number): boolean {
    const {perSecond, burst, clients} = this.#options;
    const before = this.#buckets.get(client) ?? {left: burst, at: now};
    const left = Math.min(burst, before.left + ((now - before.at) / 1000) * perSecond);
    this.#buckets.delete(client);
    this.#buckets.set(client, {left: left >= 1 ? left - 1 : left, at: now});
    if (this.#buckets.size > clients) this.#buckets.delete(this.#buckets.keys().next().value ?? '');
    return left >= 1;
  }
}
