import {describe, expect, test} from 'vitest';
import {parseHealthz, parseSyncMetrics} from '../../../src/parse/kube-proxy/kube-proxy-state.ts';
import {readFixture} from '../../fixtures.ts';

const fileOf = (capture: string, file: string) => readFixture(`captures/healthy/${capture}/nodes/node-a/${file}`).toString();

describe('/healthz', () => {
  test('of 1.36 contains its times and its health', () => {
    expect(parseHealthz(fileOf('1.36-iptables', 'healthz.json'))).toEqual({
      now: Date.UTC(2026, 10, 21, 9, 31, 23, 787),
      lastUpdated: Date.UTC(2026, 10, 21, 9, 31, 23, 787),
      healthy: true,
    });
  });

  test("up to 1.30 prints times in Go's format", () => {
    const time = Date.UTC(2026, 10, 21, 10, 29, 29, 314);
    expect(parseHealthz(fileOf('1.23-iptables', 'healthz.json'))).toEqual({now: time, lastUpdated: time, healthy: true});
    const summer = '{"lastUpdated": "2026-07-01 12:00:00.5 +0200 CEST m=+5.03", "currentTime": "2026-07-01 12:00:00.5 +0200 CEST"}';
    const half = Date.UTC(2026, 6, 1, 10, 0, 0, 500);
    expect(parseHealthz(summer)).toMatchObject({now: half, lastUpdated: half});
  });

  test('reports when kube-proxy is unhealthy, as a whole or for a family', () => {
    expect(parseHealthz('{"healthy": false}')?.healthy).toBe(false);
    expect(parseHealthz('{"healthy": true, "status": {"IPv4": {"healthy": true}, "IPv6": {"healthy": false}}}')?.healthy).toBe(false);
    expect(parseHealthz('{}')).toEqual({now: null, lastUpdated: null, healthy: true});
  });

  test('that is not JSON is ignored', () => {
    expect(parseHealthz('ok')).toBeNull();
    expect(parseHealthz('"ok"')).toBeNull();
    expect(parseHealthz('{"lastUpdated": "yesterday", "currentTime": 5}')).toMatchObject({now: null, lastUpdated: null});
  });
});

describe('/metrics', () => {
  test('of 1.36 show the last sync of each family', () => {
    const metrics = parseSyncMetrics(fileOf('1.36-iptables', 'metrics'));
    expect([...metrics.lastSync]).toEqual([
      ['IPv4', 1795253477.9465082],
      ['IPv6', 1795253478.056093],
    ]);
    expect([...metrics.lastQueued]).toEqual([
      ['IPv4', 1795253477.758879],
      ['IPv6', 1795253477.7588809],
    ]);
    expect(metrics.restoreFailures).toBe(0);
  });

  test('of 1.23 do not distinguish families', () => {
    const metrics = parseSyncMetrics(fileOf('1.23-iptables', 'metrics'));
    expect([...metrics.lastSync]).toEqual([['', 1795256964.8325326]]);
    expect([...metrics.lastQueued]).toEqual([['', 1795256964.516303]]);
  });

  test('count the failed restores, over all families', () => {
    const name = 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total';
    expect(parseSyncMetrics(`# TYPE ${name} counter\n${name} 3\n`).restoreFailures).toBe(3);
    expect(parseSyncMetrics(`${name}{ip_family="IPv4"} 2\n${name}{ip_family="IPv6"} 1\n`).restoreFailures).toBe(3);
  });

  test('show how long a sync takes: the last one with its wait, or one on average, of the slower family', () => {
    expect(parseSyncMetrics(fileOf('1.36-iptables', 'metrics')).syncSeconds).toBeCloseTo(0.297);
    const slow = ['IPv4', 'IPv6'].map((family, index) => {
      const name = 'kubeproxy_sync_proxy_rules_duration_seconds';
      return `${name}_sum{ip_family="${family}"} ${40 * index}\n${name}_count{ip_family="${family}"} ${4 * index}\n`;
    });
    expect(parseSyncMetrics(slow.join('')).syncSeconds).toBe(10);
  });

  test('that are missing are left out', () => {
    expect(parseSyncMetrics('')).toEqual({
      lastSync: new Map(),
      lastQueued: new Map(),
      isPending: false,
      restoreFailures: 0,
      syncSeconds: 0,
    });
  });
});
