/** What is known about a token and a path. */
export type Decision = 'allowed' | 'unauthenticated' | 'forbidden';

/** How long a decision holds, in milliseconds. */
const lifetime: Readonly<Record<Decision, number>> = {allowed: 60_000, unauthenticated: 10_000, forbidden: 10_000};

/** So many decisions of each kind are kept. */
const maxKept = 512;

interface Kept {
  readonly decision: Decision;
  readonly until: number;
}

/**
 * Decisions of the API server, for a short time. Those that allow have a place of their own, so that any number of wrong tokens cannot
 * push out the right ones. Times are milliseconds, by a clock that only goes forward.
 */
export class DecisionCache {
  readonly #allowed = new Map<string, Kept>();
  readonly #refused = new Map<string, Kept>();

  /** Null where nothing is known any more. */
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

  /** It was allowed when it was asked for last, however long ago. */
  wasAllowed(key: string): boolean {
    return this.#allowed.has(key);
  }
}
