import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {diffBundles} from '../../src/diff/diff-bundles.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {renderers} from '../../src/render/renderers.ts';
import {diffRenderers} from '../../src/render/table/diff-report.ts';
import {exitCode} from '../../src/run/options/wait-limit.ts';
import {captureSummary, isComplete} from '../../src/run/capture/capture-cluster.ts';
import {snapshotOf} from '../fixtures.ts';
import {plain} from '../render/report.ts';

const healthy = await snapshotOf('healthy/1.36-iptables');
const options = {toolVersion: '0.0.0', scope: 'namespace shop'};
const without: Snapshot = {...healthy, nodes: []};
const cases: readonly (readonly [string, Snapshot, RegExp])[] = [
  ['the list of nodes is empty', {...without, api: {...healthy.api, nodes: []}}, /^INCOMPLETE: no node was checked: no nodes were found; /],
  ['Nodes were not read', {...without, api: {...healthy.api, nodes: null}}, /^INCOMPLETE: no node was checked: no nodes were found; /],
  [
    'no node has a dump',
    without,
    /^INCOMPLETE: 3 of 3 nodes were not checked \(node-a, node-b, node-c\): the bundle has no files of this\snode\. /,
  ],
  ['only a node that is not in the bundle was chosen', {...without, chosenNodes: true}, /^INCOMPLETE: no node was checked: /],
  [
    'every node is of another proxy',
    ofCilium(healthy),
    /^INCOMPLETE: no node was checked: node-a, and 2 more nodes: the node has rules of Cilium/,
  ],
];

describe.each(cases)('where %s', (_, snapshot, firstLine) => {
  const report = diagnose(snapshot, options);

  test('the first line and the exit code say that nothing was checked', () => {
    expect(renderers.table(report, plain)).toMatch(firstLine);
    expect(report.summary).toMatchObject({verdict: 'incomplete', nodesChecked: 0, servicesInSync: 0});
    expect([exitCode(report, 'error'), exitCode(report, 'never')]).toEqual([3, 3]);
  });

  test('no format passes', () => {
    for (const format of ['wide', 'markdown', 'github', 'html'] as const)
      expect(renderers[format](report, plain)).toContain('INCOMPLETE: ');
    expect(JSON.parse(renderers.json(report, plain))).toMatchObject({summary: {verdict: 'incomplete'}});
    expect(renderers.yaml(report, plain)).toContain('verdict: incomplete');
    expect(renderers.junit(report, plain)).toMatch(/<testsuites [^>]* errors="[1-9]/);
    expect(JSON.parse(renderers.sarif(report, plain))).toMatchObject({runs: [{invocations: [{executionSuccessful: false}]}]});
    expect(renderers.prometheus(report, plain)).toContain('\nsvc_trace_complete 0');
    for (const format of ['openreports', 'policyreport'] as const) {
      expect(renderers[format](report, plain)).toMatch(/\n {2}error: [1-9]/);
      expect(renderers[format](report, plain)).not.toContain('in sync');
    }
  });

  test('whatever codes are left out, it is said', () => {
    const skipped = diagnose(snapshot, {...options, skip: new Set(['ST901', 'ST903'])});
    expect(renderers.table(skipped, plain)).toMatch(firstLine);
    expect(exitCode(skipped, 'error')).toBe(3);
  });

  test('an empty namespace is no failure', () => {
    const empty = diagnose(snapshot, {...options, selects: () => false});
    expect(renderers.table(empty, plain)).toMatch(/^no Services in namespace shop/);
    expect(exitCode(empty, 'error')).toBe(0);
  });

  test('a comparison with it says on which side no rules were compared', () => {
    const side = {snapshot, report};
    const [before, both] = [diffBundles(side, {snapshot: healthy, report: diagnose(healthy, options)}), diffBundles(side, side)];
    expect(diffRenderers.table(both, plain)).toMatch(/^INCOMPLETE: no node was checked on the earlier and the later side/);
    expect(before.uncheckedSides).toEqual(['earlier']);
  });
});

test('an error of the API comes first, with that no node was checked', () => {
  const report = diagnose(cases[0]?.[1] ?? healthy, options);
  const error = {...report.findings[0], code: 'ST105', severity: 'error', message: 'it is broken'} as (typeof report.findings)[number];
  const faulty = {...report, findings: [error], summary: {...report.summary, errors: 1, verdict: 'findings' as const}};
  expect(renderers.table(faulty, plain)).toMatch(/^FAULTY: shop\/empty: [^;]*; 1 error[^;]*; no\s+node was checked\n/);
  expect([exitCode(faulty, 'error'), exitCode(faulty, 'never')]).toEqual([1, 3]);
});

test('a comparison of checked nodes says nothing of it', () => {
  const side = {snapshot: healthy, report: diagnose(healthy, options)};
  expect(diffBundles(side, side)).not.toHaveProperty('uncheckedSides');
});

test('a capture without nodes is incomplete', () => {
  const record = {tool: {name: 'svc-trace', version: '0.0.0'}, takenAt: null, origin: null, redacted: false, problems: []};
  expect(isComplete({...record, nodes: {}})).toBe(false);
  expect(captureSummary('b.tgz', {...record, nodes: {}}, null)).toBe('b.tgz: INCOMPLETE: no nodes were found\n');
  expect(isComplete({...record, nodes: {'node-a': {status: 'read'}}})).toBe(true);
});

/** Rules of Cilium and none of kube-proxy on every node. */
function ofCilium(snapshot: Snapshot): Snapshot {
  const dump = Buffer.from('*nat\n:PREROUTING ACCEPT [0:0]\n:CILIUM_PRE_nat - [0:0]\n-A PREROUTING -j CILIUM_PRE_nat\nCOMMIT\n');
  const pods = (snapshot.api.pods ?? []).filter(({metadata}) => !metadata.name.startsWith('kube-proxy'));
  const nodes = snapshot.nodes.map(({name}) => ({
    name,
    files: ['iptables-save'],
    read: (file: string) => (file === 'iptables-save' ? dump : null),
  }));
  return {...snapshot, nodes, api: {...snapshot.api, pods, configMaps: []}};
}
