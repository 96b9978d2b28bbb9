import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {Diagnosis} from '../../src/diagnosis/diagnosis.ts';
import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {someOf} from '../cases.ts';
import {captureNames, snapshotOf} from '../fixtures.ts';

const options = {toolVersion: '0.0.0', trace: true};

function reportOf({api, problems}: Snapshot, nodes: readonly NodeDump[]): string {
  const diagnosis = new Diagnosis(api, options);
  for (const node of nodes) diagnosis.add(node);
  return JSON.stringify(diagnosis.report(problems));
}

test.each(someOf(captureNames('faults')))('%s: the order in which nodes arrive does not show in the report', async name => {
  const snapshot = await snapshotOf(name);
  const reversed = diagnose({...snapshot, nodes: snapshot.nodes.toReversed()}, options);
  expect(JSON.stringify(reversed)).toBe(JSON.stringify(diagnose(snapshot, options)));
});

test('a node that is evaluated again is reported once, with the last result', async () => {
  const healthy = await snapshotOf('healthy/1.36-iptables');
  const [first] = healthy.nodes;
  const empty = {name: first?.name ?? '', files: [], read: () => null};
  expect(reportOf(healthy, [empty, ...healthy.nodes])).toBe(reportOf(healthy, healthy.nodes));
});

test('a node can be compared with newer API objects than the others', async () => {
  const snapshot = await snapshotOf('healthy/1.36-iptables');
  const diagnosis = new Diagnosis({...snapshot.api, services: []}, options);
  for (const node of snapshot.nodes) diagnosis.add(node);
  expect(diagnosis.report([]).findings.map(({code}) => code)).toContain('ST205');
  diagnosis.renew(snapshot.api);
  for (const node of snapshot.nodes) diagnosis.add(node);
  expect(diagnosis.report([]).summary.errors).toBe(0);
});

test('for a node that could not be read the report contains why and what to do', () => {
  const diagnosis = new Diagnosis({services: [], endpointSlices: [], endpoints: null, nodes: [], pods: null, configMaps: null}, options);
  diagnosis.addUnread({name: 'node-a', reason: 'no answer within 60 s', remedy: 'Try again.'});
  const {nodes, findings, summary} = diagnosis.report([]);
  expect(nodes).toMatchObject([{name: 'node-a', status: 'unread', reason: 'no answer within 60 s'}]);
  expect(findings).toMatchObject([{code: 'ST901', node: 'node-a', remedy: 'Try again.'}]);
  expect(summary.verdict).toBe('incomplete');
});
