import type {ApiRequest} from './api-request.ts';
import type {ApiResponse} from './send-request.ts';

/** What came of one attempt. */
type RequestOutcome = {readonly kind: 'answer'; readonly response: ApiResponse} | {readonly kind: 'failure'; readonly error: unknown};

/**
 * How long to wait before the same request is made again, in milliseconds; null when it is not to be made again.
 * 429 means that nothing was done yet. After anything else only a request that may be done twice is repeated.
 */
export function retryDelay(
  outcome: RequestOutcome,
  {method, once}: Pick<ApiRequest, 'method' | 'once'>,
  {retries, backoff}: RetryState,
): number | null {
  const idempotent = method !== 'POST' && once !== true;
  if (outcome.kind === 'failure') return idempotent && retries < maxRetries && isBroken(outcome.error) ? backoff * 2 ** retries : null;
  const {status, headers} = outcome.response;
  const throttled = status === 429 && retries < maxThrottled;
  if (!throttled && !(idempotent && status >= 500 && retries < maxRetries)) return null;
  return retryAfter(headers['retry-after']) ?? backoff * 2 ** retries;
}

interface RetryState {
  /** How often it was made again already. */
  readonly retries: number;
  /** The first delay, in milliseconds. */
  readonly backoff: number;
}

const maxRetries = 4;
const maxThrottled = 8;

/** A connection that broke during the request, as a kept one does when the API server restarts; or a truncated answer. */
function isBroken(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code ?? '';
  return ['ECONNRESET', 'EPIPE', 'Z_BUF_ERROR'].includes(code);
}

/** In milliseconds, at most half a minute; null where the header is not there. */
function retryAfter(header: string | undefined): number | null {
  if (header === undefined) return null;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? null : Math.min(Math.max(seconds, 0), 30) * 1000;
}
