import type {ApiRequest} from './api-request.ts';
import type {ApiResponse} from './send-request.ts';

/** The result of one attempt. */
type RequestOutcome = {readonly kind: 'answer'; readonly response: ApiResponse} | {readonly kind: 'failure'; readonly error: unknown};

/**
 * The delay before a retry, in milliseconds; null for no retry. 429 means that nothing was done yet. After any other result, only a request
 * that is safe to repeat is repeated.
 */
export function retryDelay(
  outcome: RequestOutcome,
  {method, once, isReview}: Pick<ApiRequest, 'method' | 'once' | 'isReview'>,
  {retries, backoff}: RetryState,
): number | null {
  const idempotent = (method !== 'POST' || isReview === true) && once !== true;
  if (outcome.kind === 'failure') return idempotent && retries < maxRetries && isBroken(outcome.error) ? backoff * 2 ** retries : null;
  const {status, headers} = outcome.response;
  const throttled = status === 429 && retries < maxThrottled;
  if (!throttled && !(idempotent && status >= 500 && retries < maxRetries)) return null;
  return retryAfter(headers['retry-after']) ?? backoff * 2 ** retries;
}

interface RetryState {
  /** The number of retries so far. */
  readonly retries: number;
  /** The first delay, in milliseconds. */
  readonly backoff: number;
}

const maxRetries = 4;
const maxThrottled = 8;

/** A connection that broke during the request, as keep-alive connections do when the API server restarts; or a truncated answer. */
function isBroken(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code ?? '';
  return ['ECONNRESET', 'EPIPE', 'Z_BUF_ERROR'].includes(code);
}

/** In milliseconds, at most half a minute; null without the header. */
function retryAfter(header: string | undefined): number | null {
  if (header === undefined) return null;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? null : Math.min(Math.max(seconds, 0), 30) * 1000;
}
