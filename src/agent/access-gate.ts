import {createHmac, randomBytes} from 'node:crypto';
import {reviewToken} from '../collect/access/review-token.ts';
import {mayGet} from '../collect/access/review-user.ts';
import {agentAudience} from '../collect/agents/agent-place.ts';
import {ApiError, type KubeApi} from '../collect/kube/kube-api.ts';
import {type Decision, DecisionCache} from './decision-cache.ts';
import {RateLimit} from './rate-limit.ts';

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
