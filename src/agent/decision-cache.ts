/** The API server's decision about a token and a path. */
export type Decision = 'allowed' | 'unauthenticated' | 'forbidden';

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
export class DecisionCache {
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
