import {createHmac, randomBytes} from 'node:crypto';
import {mayGet, reviewToken} from '../collect/access/review-access.ts';
import {agentAudience} from '../collect/agents/agent-tokens.ts';
import {ApiError, type KubeApi} from '../collect/kube/kube-api.ts';
import type {Server, Socket} from 'node:net';
import ipaddr from 'ipaddr.js';

/** `unavailable`: the API server does not answer. `throttled`: it is not asked, because there are too many unknown tokens. */
export type Admission = Decision | 'unavailable' | 'throttled';

export interface Asking {
  /** Null if the request has none. */
  readonly token: string | null;
  readonly path: string;
  /** See `clientName`. */
  readonly client: string;
}

interface AccessGateOptions {
  readonly api: KubeApi;
  /** Called when the API server stops answering, with the reason, and with null when it answers again. */
  readonly onFailure: (reason: string | null) => void;
  /** Monotonic, in milliseconds. */
  readonly now?: () => number;
  /** For both reviews of a token, in milliseconds. */
  readonly timeoutMs?: number;
}

/** Reviews with and without an answer of the API server. */
export interface ReviewCounts {
  readonly answered: number;
  readonly failed: number;
}

/**
 * Asks the API server for the owner of a token (TokenReview) and whether the owner may get the path (SubjectAccessReview), like the
 * metrics filter of controller-runtime. Answers are cached. A token that the API server does not confirm is refused. Tokens are kept as
 * keyed hashes only.
 */
export class AccessGate {
  readonly #options: Required<AccessGateOptions>;
  readonly #secret = randomBytes(32);
  readonly #cache = new DecisionCache();
  readonly #running = new Map<string, Promise<Admission>>();
  readonly #perClient = new RateLimit({perSecond: 10, burst: 20});
  readonly #perAll = new RateLimit({perSecond: 50, burst: 100});
  #failure: string | null = null;
  #answered = 0;
  #failed = 0;

  constructor(options: AccessGateOptions) {
    this.#options = {now: () => performance.now(), timeoutMs: 10_000, ...options};
  }

  get reviews(): ReviewCounts {
    return {answered: this.#answered, failed: this.#failed};
  }

  /** Does not reject if the API server fails. */
  async admit({token, path, client}: Asking): Promise<Admission> {
    if (token === null) return 'unauthenticated';
    const key = createHmac('sha256', this.#secret).update(`${path}\n${token}`).digest('base64');
    const now = this.#options.now();
    const known = this.#cache.get(key, now) ?? this.#running.get(key);
    if (known !== undefined) return known;
    if (!this.#mayAsk(key, client, now)) return 'throttled';
    const review = this.#review(token, path, key).finally(() => this.#running.delete(key));
    this.#running.set(key, review);
    return review;
  }

  /** The limits for unknown tokens do not apply to a token that was allowed before. */
  #mayAsk(key: string, client: string, now: number): boolean {
    if (this.#cache.wasAllowed(key)) return this.#running.size < maxRunning;
    return this.#running.size < maxUnknownRunning && this.#perClient.take(client, now) && this.#perAll.take('', now);
  }

  async #review(token: string, path: string, key: string): Promise<Admission> {
    try {
      const decision = await this.#decision(token, path);
      this.#answered++;
      this.#cache.set(key, decision, this.#options.now());
      this.#note(null);
      return decision;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#failed++;
      this.#note(error.message);
      return 'unavailable';
    }
  }

  async #decision(token: string, path: string): Promise<Decision> {
    const {api, timeoutMs} = this.#options;
    const signal = AbortSignal.timeout(timeoutMs);
    const owner = await reviewToken(api, token, {audience: agentAudience, signal});
    if (owner === null) return 'unauthenticated';
    return (await mayGet(api, owner, path, signal)) ? 'allowed' : 'forbidden';
  }

  #note(failure: string | null): void {
    if (failure !== this.#failure) this.#options.onFailure(failure);
    this.#failure = failure;
  }
}

/** Concurrent reviews: of all tokens, and of unknown ones. */
const [maxRunning, maxUnknownRunning] = [32, 16];

/** The API server's decision about a token and a path. */
type Decision = 'allowed' | 'unauthenticated' | 'forbidden';

/** Time to live, in milliseconds. */
const lifetime: Readonly<Record<Decision, number>> = {allowed: 60_000, unauthenticated: 10_000, forbidden: 10_000};

/** The maximum number of decisions that allow, and of those that refuse. */
const maxKept = 512;

interface Kept {
  readonly decision: Decision;
  readonly until: number;
}

/**
 * A cache of decisions. Those that allow have a map of their own, so that wrong tokens cannot displace them. Times are monotonic, in
 * milliseconds.
 */
class DecisionCache {
  readonly #allowed = new Map<string, Kept>();
  readonly #refused = new Map<string, Kept>();

  /** Null if there is no decision, or it has expired. */
  get(key: string, now: number): Decision | null {
    const kept = this.#allowed.get(key) ?? this.#refused.get(key);
    return kept !== undefined && now < kept.until ? kept.decision : null;
  }

  set(key: string, decision: Decision, now: number): void {
    this.#allowed.delete(key);
    this.#refused.delete(key);
    const place = decision === 'allowed' ? this.#allowed : this.#refused;
    place.set(key, {decision, until: now + lifetime[decision]});
    if (place.size > maxKept) place.delete(place.keys().next().value ?? '');
  }

  /** The latest decision allowed it, even if that has expired. */
  wasAllowed(key: string): boolean {
    return this.#allowed.has(key);
  }
}

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
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return (parsed as ipaddr.IPv6).parts
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
class RateLimit {
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
