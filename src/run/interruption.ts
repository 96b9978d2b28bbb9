import process from 'node:process';

/** The signals that end a run. */
const signals = ['SIGINT', 'SIGTERM'] as const;

/** Somebody wants the run to end. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
  /** Whichever signal it was: it says that what was made on the cluster is gone. */
  readonly exitCode = interrupted;

  constructor(signal: (typeof signals)[number]) {
    super(`interrupted (${signal})`);
  }
}

const interrupted = 130;

/**
 * Turns the first SIGINT or SIGTERM into an abort with an Interrupted, so that what was made on the cluster can be cleaned up; a
 * second one ends the process at once. `close` leaves the signals as they were.
 */
export function listenForInterruption(): {readonly signal: AbortSignal; close(): void} {
  const stop = new AbortController();
  const handlers = signals.map(name => {
    const handler = () => {
      if (stop.signal.aborted) process.exit(interrupted);
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

/** Does not wait for what does not heed the signal: it rejects with the signal's reason. */
export async function unlessInterrupted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const {promise, reject} = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, {once: true});
  work.catch(() => {});
  return Promise.race([work, promise]).finally(() => signal.removeEventListener('abort', onAbort));
}
