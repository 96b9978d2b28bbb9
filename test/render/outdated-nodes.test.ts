import type {Log} from 'sarif';
import {expect, test} from 'vitest';
import {renderers} from '../../src/render/renderers.ts';
import {diagnosed} from '../diagnosed.ts';
import {snapshotOf} from '../fixtures.ts';
import {plain} from './report.ts';

const report = diagnosed(await snapshotOf('faults/frozen-node'));
const says = (format: keyof typeof renderers): string => renderers[format](report, plain);
const cause = /node-b: kube-proxy stopped applying changes between 2026-11-21 08:57:10 and 09:20:28 UTC/;

test('a node that the table calls outdated fails in every format for programs', () => {
  expect(says('table')).toMatch(/\(the node itself\) +ok +outdated +ok/);
  expect(JSON.parse(says('json')).nodes.map(({state}: {readonly state?: string}) => state)).toEqual([undefined, 'outdated', undefined]);
  expect(says('junit')).toMatch(
    new RegExp(`<testcase classname="node-b" name="\\(the node itself\\)" time="0">\\s*<failure type="outdated" message="${cause.source}"`),
  );
  expect(renderers.junit(report, {...plain, failOn: 'never'})).not.toContain('<failure');
  expect(says('prometheus').match(/^svc_trace_node_outdated.*$/gm)).toEqual(
    ['a', 'b', 'c'].map(node => `svc_trace_node_outdated{node="node-${node}"} ${node === 'b' ? 1 : 0}`),
  );
  expect(says('openreports')).toMatch(new RegExp(`rule: rules-current\\s+source: svc-trace\\s+result: fail\\s+message: '${cause.source}'`));
});

test('SARIF has one result for a node and cause, with the number of the others', () => {
  const {runs} = JSON.parse(says('sarif')) as Log;
  const results = runs[0]?.results ?? [];
  expect(results.map(({ruleId}) => ruleId)).toEqual(['ST201', 'ST101', 'ST101', 'ST101']);
  expect(results[0]?.message.text).toMatch(
    /^kube-proxy no longer applies changes on node-b: .*; 21 more findings on this node, likely from this cause\. /,
  );
  expect(results[0]?.locations?.[0]?.logicalLocations).toEqual([{fullyQualifiedName: 'node node-b'}]);
});
