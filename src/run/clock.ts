import process from 'node:process';
import {setTimeout} from 'node:timers/promises';

/** The time, and a way to wait. Tests replace it. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Rejects with the signal's reason when it is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (milliseconds, signal) => setTimeout(milliseconds, undefined, {signal}),
};

/** The signals that end a run. */
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

/** The user ended the run. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
  /** The same text for every signal: it says that everything created on the cluster was removed. */
  readonly exitCode = interrupted;

  constructor(signal: (typeof signals)[number]) {
    super(`interrupted (${signal})`);
  }
}

const interrupted = 130;

/**
 * Turns the first SIGINT, SIGTERM, SIGHUP or SIGQUIT into an abort with an Interrupted, so that everything created on the cluster can be removed.
 * A second signal ends the process at once, but not after SIGHUP: a closed terminal sends several, and writing to it fails. `close`
 * restores the previous handlers.
 */
export function listenForInterruption(): {readonly signal: AbortSignal; close(): void} {
  const stop = new AbortController();
  let hungUp = false;
  const handlers = signals.map(name => {
    const handler = () => {
      if (name === 'SIGHUP' && !hungUp) {
        hungUp = true;
        process.stderr.on('error', () => {});
      }
      if (stop.signal.aborted && !hungUp) process.exit(interrupted);
      stop.abort(new Interrupted(name));
    };
    process.on(name, handler);
    return {name, handler};
  });
  return {
    signal: stop.signal,
    close: () => {
      for (const {name, handler} of handlers) process.off(name, handler);
    },
  };
}
