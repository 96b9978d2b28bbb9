import type {Clock} from '../run/clock.ts';
import type {CountedEndpoints} from './endpoint-connections.ts';
import type {AgentResult} from '../model/node-result.ts';
import type {Report} from '../model/report.ts';
import type {CheckResult, SelfCheck} from './self-check.ts';

export interface AgentOptions {
  readonly evaluate: Pick<SelfCheck, 'check'>;
  readonly clock: Clock;
  /** The node is checked again after this time even if nothing has changed, in milliseconds, plus or minus a tenth. */
  readonly intervalMs: number;
  /** How long after a change the node is checked, in milliseconds. */
  readonly gracePeriodMs: number;
  /** Maximum delay of the first check, so that agents that start together do not send requests together. In milliseconds. */
  readonly startDelayMs: number;
  /** A random number from 0 to 1. */
  readonly random?: () => number;
  readonly onCheck?: (result: CheckResult, at: number) => void;
}

/** The state of an agent. Times are milliseconds since 1970. */
export interface AgentState {
  readonly result: AgentResult | null;
  readonly report: Report | null;
  /** Left out where they are not counted. */
  readonly connections?: CountedEndpoints | undefined;
  /** Why the latest check failed; null if it succeeded. */
  readonly trouble: string | null;
  /** When the latest check ended, whether it succeeded or not; before the first one, when the agent started. */
  readonly checkedAt: number;
  readonly checks: number;
  /** Checks that failed or could not read the node. */
  readonly failedChecks: number;
}

/** Checks its node repeatedly: after changes, and at an interval. Checks never overlap, and there is always a pause between them. */
export class Agent {
  readonly #options: AgentOptions;
  readonly #random: () => number;
  #state: AgentState;
  #changedAt: number | null = null;
  #wakeUp: () => void = () => {};

  constructor(options: AgentOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
    this.#state = {result: null, report: null, trouble: 'not checked yet', checkedAt: options.clock.now(), checks: 0, failedChecks: 0};
  }

  get state(): AgentState {
    return this.#state;
  }

  /** Call it when something has changed. */
  noteChange(): void {
    if (this.#changedAt !== null) return;
    this.#changedAt = this.#options.clock.now();
    this.#wakeUp();
  }

  /** Rejects with the signal's reason when it is aborted, and does not resolve. */
  async run(signal: AbortSignal): Promise<never> {
    const {clock, evaluate, startDelayMs, onCheck} = this.#options;
    await clock.sleep(startDelayMs * this.#random(), signal);
    for (;;) {
      signal.throwIfAborted();
      this.#changedAt = null;
      const begun = clock.now();
      const result = await evaluate.check(signal);
      this.#keep(result);
      onCheck?.(result, clock.now());
      await this.#rest(result, {begun, signal});
    }
  }

  #keep(result: CheckResult): void {
    const {checks, failedChecks} = this.#state;
    const checkedAt = this.#options.clock.now();
    const hasFailed = result.kind === 'trouble' || result.result.report.status === 'unread';
    const counts = {checkedAt, checks: checks + 1, failedChecks: failedChecks + (hasFailed ? 1 : 0)};
    this.#state =
      result.kind === 'trouble'
        ? {...this.#state, ...counts, trouble: result.message}
        : {...counts, trouble: null, result: result.result, report: result.report, connections: result.connections};
  }

  /**
   * A pause of nine times the duration of the last check, but no longer than the interval: the agent uses at most a tenth of a processor.
   */
  async #rest(result: CheckResult, {begun, signal}: {readonly begun: number; readonly signal: AbortSignal}): Promise<void> {
    const {clock, intervalMs, gracePeriodMs} = this.#options;
    const ended = clock.now();
    const rest = 9 * (ended - begun);
    const interval = result.kind === 'trouble' ? Math.min(intervalMs, Math.max(rest, soon)) : intervalMs * (0.9 + 0.2 * this.#random());
    const earliest = ended + Math.min(interval, rest);
    for (;;) {
      const due =
        this.#changedAt === null ? ended + interval : Math.min(ended + interval, Math.max(earliest, this.#changedAt + gracePeriodMs));
      // A clock that was set back would make the pause longer.
      const left = Math.min(due - clock.now(), interval);
      if (left <= 0 || !(await this.#sleepOrChange(left, signal))) return;
    }
  }

  /** Resolves to whether something changed before the time was over. */
  async #sleepOrChange(milliseconds: number, signal: AbortSignal): Promise<boolean> {
    const woken = new AbortController();
    this.#wakeUp = () => woken.abort();
    try {
      await this.#options.clock.sleep(milliseconds, AbortSignal.any([signal, woken.signal]));
    } catch (error) {
      signal.throwIfAborted();
      if (!woken.signal.aborted) throw error;
    }
    this.#wakeUp = () => {};
    return woken.signal.aborted;
  }
}

/** How soon a failed check is repeated, in milliseconds. */
const soon = 2000;
