import {expect, test} from 'vitest';
import {Diagnosis} from '../../src/diagnosis/diagnosis.ts';
import type {Finding} from '../../src/model/finding.ts';
import {retract} from '../../src/run/recheck.ts';
import {type FindingSummary, type Scenario, containing, scenario} from '../scenario.ts';

test('a finding of a Service that changed seconds before the node was read says so itself, without ST904 beside it', async () => {
  expect(await changedBefore(5)).toEqual([
    expect.objectContaining({
      ...{code: 'ST202', severity: 'error', node: 'node-b'},
      message: containing('; shop/web changed 5 s before node-b was read: kube-proxy may not have followed yet'),
    }),
  ]);
});

test('a change that only managedFields tell of counts', async () => {
  const given = await scenario();
  given.slices('shop/web', slice => ({...slice, metadata: {...slice.metadata, managedFields: [{time: secondsBefore(5)}]}}));
  expect((await changedBefore(120, given)).map(({message}) => message)).toEqual([
    containing('; shop/web changed 5 s before node-b was read'),
  ]);
});

test('an undetermined state replaces all findings of the Service on the node', async () => {
  const given = await scenario();
  given.rules('node-b').delete('-A KUBE-SVC-', '"shop/web:http -> 10.244.11.5:8080"');
  const found = withoutDoubtful(given, 'ST202').filter(({service}) => service?.name === 'web');
  expect(found).toEqual([expect.objectContaining({code: 'ST904', severity: 'info', node: 'node-b'})]);
});

test('an undetermined finding about many Services is told of the node and its Services', async () => {
  const given = await scenario();
  given.rules('node-b').deleteAll('-A KUBE-NODEPORTS ');
  const found = withoutDoubtful(given, 'ST304').filter(({code}) => /^ST[39]04$/.test(code));
  expect(found.map(({code, message}) => `${code} ${message}`)).toEqual([
    'ST904 the Services and node-b kept changing while they were read: what differed in them may be only that',
  ]);
});

test('a change that is minutes old hides no finding', async () => {
  expect((await changedBefore(120)).map(({code}) => code)).toEqual(['ST202']);
});

test('a Service that changed and is in sync stays silent', async () => {
  const given = await scenario();
  given.slices('shop/web', slice => ({...slice, metadata: {...slice.metadata, creationTimestamp: secondsBefore(5)}}));
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: readAt, healthy: true}));
  expect(given.newFindings()).toEqual([]);
});

test('a node without the time of its reading stays silent', async () => {
  const given = await scenario();
  given.slices('shop/web', slice => ({...slice, metadata: {...slice.metadata, creationTimestamp: secondsBefore(5)}}));
  given.file('node-b', 'healthz.json', 'ok');
  given.rules('node-b').delete('-A KUBE-SVC-', '"shop/web:http -> 10.244.11.5:8080"');
  expect(given.newFindings().map(({code}) => code)).not.toContain('ST904');
});

/** What is found on node-b once the one finding of this code is taken back. */
function withoutDoubtful(given: Scenario, doubted: string): readonly Finding[] {
  const {api, nodes} = given.snapshot();
  const diagnosis = new Diagnosis(api, {toolVersion: '0.0.0'});
  for (const node of nodes) diagnosis.add(node);
  const doubtful = diagnosis.findingsOn('node-b').filter(({code}) => code === doubted);
  expect(doubtful).toHaveLength(1);
  retract(doubtful, diagnosis);
  return diagnosis.findingsOn('node-b');
}

const readAt = '2026-11-21T09:31:24Z';

function secondsBefore(seconds: number): string {
  return new Date(Date.parse(readAt) - seconds * 1000).toISOString();
}

async function changedBefore(seconds: number, given?: Scenario): Promise<readonly FindingSummary[]> {
  given ??= await scenario();
  given.slices('shop/web', slice => ({...slice, metadata: {...slice.metadata, creationTimestamp: secondsBefore(seconds)}}));
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: readAt, healthy: true}));
  given.rules('node-b').delete('-A KUBE-SVC-', '"shop/web:http -> 10.244.11.5:8080"');
  return given.newFindings();
}
