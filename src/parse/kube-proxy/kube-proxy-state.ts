import {readJson} from '../attempt.ts';
import type {Family} from '../../model/address.ts';

/**
 * Reads `/healthz`; null if it is not a JSON object, like the plain `ok` of old versions. Times are in milliseconds since 1970. `healthy`:
 * false if it reports that it is unhealthy, as a whole or for a family.
 */
export function parseHealthz(text: string) {
  const parsed = readJson(text);
  if (typeof parsed !== 'object' || parsed === null) return null;
  const {lastUpdated, currentTime, healthy, status} = parsed as {
    lastUpdated?: unknown;
    currentTime?: unknown;
    healthy?: unknown;
    status?: Record<string, {healthy?: unknown}>;
  };
  const families = Object.values(status ?? {});
  return {
    now: toTime(currentTime),
    lastUpdated: toTime(lastUpdated),
    healthy: healthy !== false && families.every(family => family?.healthy !== false),
  };
}

/** RFC 3339, or, up to 1.30, in Go's format: `2026-11-21 10:29:29.314491726 +0000 UTC m=+5.039295790`. */
function toTime(value: unknown): number | null {
  const time = typeof value === 'string' ? Date.parse(value.replace(/ [A-Z]+(?: m=\S+)?$/, '')) : Number.NaN;
  return Number.isNaN(time) ? null : time;
}

/**
 * Reads `/metrics`; missing metrics are left out, times are in seconds since 1970. `isPending`: a change waits, or is being written.
 * `syncSeconds`: how long the last sync took, with the wait for it, or one does on average: the longer of the two, in seconds.
 */
export function parseSyncMetrics(text: string) {
  const lastSync = new Map<Family | '', number>();
  const lastQueued = new Map<Family | '', number>();
  const [sums, counts] = [new Map<Family | '', number>(), new Map<Family | '', number>()];
  let restoreFailures = 0;
  for (const [, name = '', labels = '', value = ''] of text.matchAll(/^kubeproxy_sync_proxy_rules_(\w+)(?:\{([^}]*)\})? (\S+)$/gm)) {
    const family = (/ip_family="(IPv[46])"/.exec(labels)?.[1] ?? '') as Family | '';
    if (name === 'last_timestamp_seconds') lastSync.set(family, Number(value));
    else if (name === 'last_queued_timestamp_seconds') lastQueued.set(family, Number(value));
    else if (name === 'duration_seconds_sum') sums.set(family, Number(value));
    else if (name === 'duration_seconds_count') counts.set(family, Number(value));
    else if (name === 'iptables_restore_failures_total') restoreFailures += Number(value);
  }
  const average = [...sums].map(([family, sum]) => sum / (counts.get(family) || Number.POSITIVE_INFINITY));
  const last = [...lastSync].map(([family, synced]) => synced - (lastQueued.get(family) ?? synced));
  const isPending = [...lastQueued].some(([family, queued]) => queued > (lastSync.get(family) ?? 0));
  return {lastSync, lastQueued, isPending, restoreFailures, syncSeconds: Math.max(0, ...average, ...last)};
}

/** The sum of a counter of `/metrics` over its labels; 0 where it is not there. A counter at zero means "not seen", never "not used". */
export function countOf(metrics: Buffer | null, name: string): number {
  const lines = (metrics?.toString('utf8') ?? '').split('\n').filter(line => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  return lines.reduce((sum, line) => sum + (Number(line.slice(line.lastIndexOf(' '))) || 0), 0);
}
