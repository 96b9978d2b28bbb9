/** Rejects with the signal's reason, or another error, without waiting for a promise that ignores the signal. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, error = (): unknown => signal.reason): Promise<T> {
  const {promise, reject} = Promise.withResolvers<never>();
  const onAbort = () => reject(error());
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, {once: true});
  work.catch(() => {});
  return Promise.race([work, promise]).finally(() => signal.removeEventListener('abort', onAbort));
}
