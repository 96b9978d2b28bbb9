import {expect, test} from 'vitest';
import {saying, scenario} from '../scenario.ts';

const place = {code: 'ST505', severity: 'warning', node: 'node-b'};

test('a kube-proxy that calls itself unhealthy is reported with the age of its last sync', async () => {
  const given = await scenario();
  const health = {lastUpdated: '2026-11-21T09:20:00Z', currentTime: '2026-11-21T09:31:00Z', healthy: false};
  given.file('node-b', 'healthz.json', JSON.stringify(health));
  expect(given.news()).toEqual([
    {...place, message: saying('kube-proxy on node-b does not keep up: it says that it is not healthy, last updated 660 s')},
  ]);
});

test('a family that is unhealthy is enough', async () => {
  const given = await scenario();
  const status = {IPv4: {healthy: true}, IPv6: {healthy: false}};
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: '2026-11-21T09:31:00Z', status}));
  expect(given.news().map(({code}) => code)).toEqual(['ST505']);
});

test('a change that has been waiting for minutes is reported', async () => {
  const given = await scenario();
  given.file('node-b', 'metrics', metrics({queuedAgo: 300, syncedAgo: 900}));
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: now, healthy: true}));
  expect(given.news()).toEqual([{...place, message: saying('a change of IPv4 has been waiting for 300 s')}]);
});

test('a change that came seconds ago stays silent', async () => {
  const given = await scenario();
  given.file('node-b', 'metrics', metrics({queuedAgo: 5, syncedAgo: 900}));
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: now, healthy: true}));
  expect(given.news()).toEqual([]);
});

test('a sync that is old when nothing changed since stays silent', async () => {
  const given = await scenario();
  given.file('node-b', 'metrics', metrics({queuedAgo: 9000, syncedAgo: 8999}));
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: now, healthy: true}));
  expect(given.news()).toEqual([]);
});

test('a kube-proxy that was not asked stays silent', async () => {
  const given = await scenario();
  for (const file of ['healthz.json', 'metrics']) given.file('node-b', file, null);
  expect(given.news()).toEqual([]);
});

const now = '2026-11-21T09:31:24Z';

function metrics({queuedAgo, syncedAgo}: {readonly queuedAgo: number; readonly syncedAgo: number}): string {
  const seconds = Date.parse(now) / 1000;
  return [
    `kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} ${seconds - queuedAgo}`,
    `kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} ${seconds - syncedAgo}`,
    '',
  ].join('\n');
}
