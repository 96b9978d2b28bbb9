export interface RateLimitOptions {
  readonly perSecond: number;
  /** How many at once after a rest. */
  readonly burst: number;
  /** At most so many clients are remembered; whoever was seen longest ago is forgotten first. */
  readonly clients?: number;
}

/** A token bucket for each client. */
export class RateLimit {
  readonly #options: Required<RateLimitOptions>;
  readonly #buckets = new Map<string, {readonly left: number; readonly at: number}>();

  constructor({clients = 1024, ...options}: RateLimitOptions) {
    this.#options = {...options, clients};
  }

  /** Whether this client may do one thing more. `now` is in milliseconds, by a clock that only goes forward. */
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
