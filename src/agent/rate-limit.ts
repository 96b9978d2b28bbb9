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
