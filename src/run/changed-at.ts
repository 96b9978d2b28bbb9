import type {ObjectMeta} from '../model/api-objects.ts';

/**
 * When an object was last written, by what the API server and the controllers note in it, in milliseconds since 1970; 0 when they do not.
 * `clockAheadMs` is how far the clock here is ahead of theirs.
 */
export function changedAt({creationTimestamp, annotations, managedFields}: ObjectMeta, clockAheadMs = 0): number {
  const times = [
    creationTimestamp,
    annotations?.['endpoints.kubernetes.io/last-change-trigger-time'],
    ...(managedFields ?? []).map(({time}) => time),
  ];
  const latest = Math.max(0, ...times.map(text => Date.parse(text ?? '')).filter(time => !Number.isNaN(time)));
  return latest === 0 ? 0 : latest + clockAheadMs;
}
