/** Something that goes wrong, for requests whose `METHOD /path?query` matches, the first `times` times (always where it is not given). */
export type Fault = {readonly match?: RegExp; times?: number} & FaultKind;

type FaultKind =
  /** Answers later, in milliseconds. */
  | {readonly kind: 'slow'; readonly delay: number}
  /** Answers when something else has happened. */
  | {readonly kind: 'wait'; readonly until: Promise<unknown>}
  /** Takes the request and never answers; for exec, opens the stream and sends nothing. */
  | {readonly kind: 'hang'}
  /** Breaks the connection off in place of an answer. */
  | {readonly kind: 'reset'}
  /** Answers with a Status; 429 and 503 may carry Retry-After, in seconds. */
  | {readonly kind: 'status'; readonly status: number; readonly message?: string; readonly retryAfter?: number}
  /** Sends half of the answer and breaks off. */
  | {readonly kind: 'truncate'}
  /** Answers a `continue` with 410. */
  | {readonly kind: 'expire-continue'}
  /** Closes an exec stream after some bytes of output, with no Status: by a close frame, or with nothing at all. */
  | {readonly kind: 'cut-exec'; readonly after: number; readonly clean?: boolean};

/** The first fault that matches and is not used up. It counts as used. */
export function takeFault(faults: readonly Fault[], request: string, kinds: readonly Fault['kind'][]): Fault | null {
  const fault = faults.find(({kind, match, times}) => kinds.includes(kind) && (match?.test(request) ?? true) && times !== 0);
  if (fault?.times !== undefined) fault.times--;
  return fault ?? null;
}
