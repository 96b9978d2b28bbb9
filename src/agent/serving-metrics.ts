import {metric, sample} from '../render/ci/prometheus.ts';
import type {ReviewCounts} from './access-gate.ts';

/** Answers, reviews and the certificate. */
export interface ServingState {
  /** Answers to requests that need a token, by HTTP status. */
  readonly answers: ReadonlyMap<number, number>;
  /** Null if no token is needed. */
  readonly reviews: ReviewCounts | null;
  /** When the certificate expires, in milliseconds since 1970; null for plain HTTP. */
  readonly notAfter: number | null;
}

export function servingMetrics({answers, reviews, notAfter}: ServingState): readonly string[] {
  const statuses = [...answers].toSorted(([a], [b]) => a - b);
  return [
    metric(
      'svc_trace_agent_requests_total',
      'Answers to requests that need a token, by HTTP status.',
      statuses.map(([code, count]) => sample({code: String(code)}, count)),
    ),
    metric(
      'svc_trace_agent_token_reviews_total',
      'Reviews of tokens by the API server: answered or failed.',
      reviews === null ? [] : [sample({result: 'answered'}, reviews.answered), sample({result: 'failed'}, reviews.failed)],
    ),
    metric(
      'svc_trace_agent_certificate_expiry_timestamp_seconds',
      'When the certificate expires.',
      notAfter === null ? [] : [sample({}, notAfter / 1000)],
    ),
  ];
}
