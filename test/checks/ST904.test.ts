import {expect, test} from 'vitest';
import {type Said, saying, scenario} from '../scenario.ts';

test('a difference of a Service that changed seconds before the node was read is marked as perhaps only that', async () => {
  expect(await changedBefore(5)).toEqual([
    expect.objectContaining({code: 'ST202', severity: 'error', node: 'node-b'}),
    {
      ...{code: 'ST904', severity: 'info', node: 'node-b', family: 'IPv4', subject: 'shop/web:http'},
      message: saying('shop/web changed 5 s before node-b was read'),
    },
  ]);
});

test('a change that is minutes old excuses nothing', async () => {
  expect((await changedBefore(120)).map(({code}) => code)).toEqual(['ST202']);
});

test('a Service that changed and is programmed as it should be stays silent', async () => {
  const given = await scenario();
  given.slices('shop/web', slice => ({...slice, metadata: {...slice.metadata, creationTimestamp: secondsBefore(5)}}));
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: readAt, healthy: true}));
  expect(given.news()).toEqual([]);
});

test('a node that does not say when it was read stays silent', async () => {
  const given = await scenario();
  given.slices('shop/web', slice => ({...slice, metadata: {...slice.metadata, creationTimestamp: secondsBefore(5)}}));
  given.file('node-b', 'healthz.json', 'ok');
  given.rules('node-b').delete('-A KUBE-SVC-', '"shop/web:http -> 10.244.11.5:8080"');
  expect(given.news().map(({code}) => code)).not.toContain('ST904');
});

const readAt = '2026-11-21T09:31:24Z';

function secondsBefore(seconds: number): string {
  return new Date(Date.parse(readAt) - seconds * 1000).toISOString();
}

async function changedBefore(seconds: number): Promise<readonly Said[]> {
  const given = await scenario();
  given.slices('shop/web', slice => ({...slice, metadata: {...slice.metadata, creationTimestamp: secondsBefore(seconds)}}));
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: readAt, healthy: true}));
  given.rules('node-b').delete('-A KUBE-SVC-', '"shop/web:http -> 10.244.11.5:8080"');
  return given.news();
}
