import {describe, expect, test} from 'vitest';
import {diffBundles, type DiffSide} from '../../src/diff/diff-bundles.ts';
import type {EndpointSliceObject, ServiceObject} from '../../src/model/api-objects.ts';
import type {BundleDiff} from '../../src/model/findings/bundle-diff.ts';
import type {ApiObjects, Snapshot} from '../../src/model/snapshot.ts';
import {diffRenderers} from '../../src/render/table/diff-report.ts';
import {diagnosed} from '../diagnosed.ts';
import {snapshotOf} from '../fixtures.ts';
import {hostile, plain} from '../render/report.ts';

const healthy = await snapshotOf('healthy/1.36-iptables');

function sideOf(snapshot: Snapshot): DiffSide {
  return {snapshot, report: diagnosed(snapshot)};
}

/** The same objects with some of them changed. */
function withApi(change: (api: ApiObjects) => Partial<ApiObjects>): Snapshot {
  return {...healthy, api: {...healthy.api, ...change(healthy.api)}};
}

function editService(name: string, edit: (service: ServiceObject) => ServiceObject): Snapshot {
  return withApi(({services}) => ({services: (services ?? []).map(service => (service.metadata.name === name ? edit(service) : service))}));
}

function editSlices(service: string, edit: (slice: EndpointSliceObject) => EndpointSliceObject): Snapshot {
  return withApi(({endpointSlices}) => ({
    endpointSlices: (endpointSlices ?? []).map(slice =>
      slice.metadata.labels?.['kubernetes.io/service-name'] === service ? edit(slice) : slice,
    ),
  }));
}

const nothing = {services: [], endpoints: [], nodes: [], rules: [], findings: [], notCompared: []};

test('a bundle compared with itself has no differences', () => {
  const diff = diffBundles(sideOf(healthy), sideOf(healthy));
  expect(diff).toEqual(nothing);
  expect(diffRenderers.table(diff, plain)).toBe('SAME: no change in kube-proxy rules or the API objects they follow');
});

test('a rule removed on one node is shown with its chain, and with the finding that it causes', async () => {
  const diff = diffBundles(sideOf(healthy), sideOf(await snapshotOf('faults/missing-endpoint')));
  expect(diff.rules).toEqual([
    {
      ...{node: 'node-a', place: 'iptables nat/KUBE-SVC-67NZLRHBNDSAWJRO', came: []},
      went: [expect.stringMatching(/shop\/web:http -> 10\.244\.11\.5:8080.* -j KUBE-SEP-633E3V2HVLGC6BYN$/)],
    },
  ]);
  expect(diff.findings).toMatchObject([{kind: 'came', finding: {code: 'ST202', node: 'node-a', endpoint: '10.244.11.5:8080'}}]);
});

test('in the other direction the finding is resolved', async () => {
  const {findings, rules} = diffBundles(sideOf(await snapshotOf('faults/missing-endpoint')), sideOf(healthy));
  expect(findings).toMatchObject([{kind: 'went', finding: {code: 'ST202'}}]);
  expect(rules[0]?.came).toHaveLength(1);
});

describe('Services', () => {
  test('are added and removed', () => {
    const without = withApi(({services}) => ({services: (services ?? []).filter(({metadata}) => metadata.name !== 'web')}));
    const web = {kind: 'went', service: {namespace: 'shop', name: 'web'}, fields: []};
    expect(diffBundles(sideOf(healthy), sideOf(without)).services).toEqual([web]);
    expect(diffBundles(sideOf(without), sideOf(healthy)).services).toEqual([{...web, kind: 'came'}]);
  });

  test('change in the fields that kube-proxy uses, and in no others', () => {
    const changed = editService('web', service => ({
      ...service,
      metadata: {...service.metadata, resourceVersion: '99', annotations: {a: 'b'}},
      spec: {...service.spec, internalTrafficPolicy: 'Local', ports: [{name: 'http', port: 81, protocol: 'TCP', targetPort: 8080}]},
    }));
    expect(diffBundles(sideOf(healthy), sideOf(changed)).services).toEqual([
      {
        ...{kind: 'changed', service: {namespace: 'shop', name: 'web'}},
        fields: [
          {field: 'internalTrafficPolicy', before: 'Cluster', after: 'Local'},
          {field: 'port http/TCP', before: '80 → 8080', after: '81 → 8080'},
        ],
      },
    ]);
  });
});

describe('endpoints', () => {
  test('are added, removed, and change their state', () => {
    const changed = editSlices('web', slice => ({
      ...slice,
      endpoints: (slice.endpoints ?? []).flatMap(endpoint => {
        if (endpoint.addresses?.[0] === '10.244.11.4') return [];
        if (endpoint.addresses?.[0] !== '10.244.11.5') return [endpoint];
        return [
          {...endpoint, conditions: {ready: false, serving: true, terminating: true}},
          {...endpoint, addresses: ['10.244.11.99']},
        ];
      }),
    }));
    const web = {service: {namespace: 'shop', name: 'web'}, port: 'http/TCP'};
    expect(diffBundles(sideOf(healthy), sideOf(changed)).endpoints).toMatchObject([
      {...web, kind: 'went', endpoint: '10.244.11.4:8080', before: 'ready', after: null},
      {...web, kind: 'changed', endpoint: '10.244.11.5:8080', before: 'ready', after: 'terminating, serving', pod: 'shop/web-2'},
      {...web, kind: 'came', endpoint: '10.244.11.99:8080', before: null, after: 'ready'},
    ]);
  });

  test('that were not read on one side are not reported as removed', () => {
    const diff = diffBundles(sideOf(healthy), sideOf(withApi(() => ({endpointSlices: null, endpoints: null}))));
    expect(diff.endpoints).toEqual([]);
    expect(diff.notCompared).toEqual(['endpoints were not read on one of the sides']);
  });
});

test('for two reports the nodes and the findings are compared', () => {
  const report = sideOf(healthy).report;
  const [first] = report.nodes;
  const other = {...report, nodes: [{...first, settings: {...first?.settings, masqueradeAll: {value: 'true', source: 'flag'}}}]};
  const diff = diffBundles({snapshot: null, report}, {snapshot: null, report: other as DiffSide['report']});
  expect(diff.notCompared).toEqual(['a report contains no Services, endpoints or rules']);
  expect(diff.nodes).toEqual([
    {kind: 'changed', node: 'node-a', fields: [{field: 'masqueradeAll', before: 'false', after: 'true'}]},
    {kind: 'went', node: 'node-b', fields: []},
    {kind: 'went', node: 'node-c', fields: []},
  ]);
});

test('the same change on many nodes is shown once', () => {
  const rules = ['node-a', 'node-b'].map(node => ({node, place: 'iptables nat/X', came: ['-A X -j Y'], went: []}));
  expect(diffRenderers.table({...nothing, rules}, plain).split('\n')).toEqual([
    'DIFFERENT: 2 rules on 2 nodes',
    '',
    'RULES',
    'node-a, node-b',
    '  iptables nat/X',
    '  + -A X -j Y',
  ]);
});

test('findings with one cause are one line, and the first line names it; -v has a line for each', async () => {
  const found = diagnosed(await snapshotOf('faults/frozen-node')).findings.filter(({node}) => node !== undefined);
  const cause = 'kube-proxy no longer applies changes on node-b: the rules there are older than the API; ';
  for (const [kind, sign] of [
    ['came', '+'],
    ['went', '-'],
  ] as const) {
    const diff = {...nothing, findings: found.map(finding => ({kind, finding}))};
    const [verdict, , title, ...lines] = diffRenderers.table(diff, {...plain, width: Infinity}).split('\n');
    expect(verdict).toBe(
      kind === 'came'
        ? 'DIFFERENT: node-b: kube-proxy stopped applying changes between 2026-11-21 08:57:10 and 09:20:28 UTC; 22 new findings'
        : 'DIFFERENT: 22 findings resolved',
    );
    expect([title, ...lines]).toEqual([
      'FINDINGS',
      expect.stringMatching(`^[${sign}] ST20\\d error  node-b  ${cause}.*; 21 more findings on 10 Services, `),
    ]);
    expect(diffRenderers.table(diff, {...plain, width: Infinity, verbose: true}).match(/^[+-] ST/gm)).toHaveLength(22);
  }
});

test('what is longer than a screen is counted: -v shows all', () => {
  const endpoints = Array.from({length: 670}, (_, index) => ({
    ...({kind: 'came', service: {namespace: 'shop', name: 'web'}, port: 'http', endpoint: `10.0.0.${index}:80`, pod: null} as const),
    ...{nodeName: null, before: null, after: 'ready'},
  }));
  // Nodes whose rules changed in different ways.
  const rules = Array.from({length: 90}, (_, node) =>
    Array.from({length: node === 7 ? 100 : 50}, (_unused, chain) => ({
      ...{node: `node-${node}`, place: `iptables nat/X-${chain}`, came: [`-A X -j Y-${node}`], went: []},
    })),
  ).flat();
  const text = diffRenderers.table({...nothing, endpoints, rules}, plain);
  expect(text).toContain('DIFFERENT: 670 endpoints, 4550 rules on 90 nodes\n');
  expect(text).toContain('\nand 650 more; -v shows them\n');
  expect(text).toContain('\n  and 40 more chains and lists; -v shows them\nand rules on 89 more nodes; -v shows them');
  // At any width: what does not fit is cut, and the counts of what is hidden stay.
  expect(text.split('\n').length).toBeLessThan(60);
  const long = rules.map(change => ({...change, came: [`-A X ${'--word '.repeat(40)}`, 'b', 'c', 'd']}));
  const narrow = diffRenderers.table({...nothing, endpoints, rules: long}, {...plain, width: 80});
  expect(narrow.split('\n').length).toBeLessThan(60);
  expect(narrow).toContain('and more lines; -v shows them');
  expect(narrow).toMatch(/\nand rules on 1 more node; -v shows them$/);
  const all = diffRenderers.table({...nothing, endpoints, rules}, {...plain, verbose: true});
  expect(all.match(/\+ shop\/web/g)).toHaveLength(670);
  expect(all.match(/^node-\d+$/gm)).toHaveLength(90);
});

test.each(Object.entries(hostile))('no escape sequence reaches the terminal: %s', (_, name) => {
  const service = {namespace: name, name};
  const changed = {kind: 'changed', fields: [{field: name, before: name, after: name}]} as const;
  const diff: BundleDiff = {
    ...{services: [{...changed, service}], nodes: [{...changed, node: name}]},
    endpoints: [{kind: 'came', service, port: name, endpoint: name, pod: name, nodeName: name, before: null, after: name}],
    ...{rules: [{node: name, place: name, came: [name], went: [name]}], findings: [], notCompared: [name]},
  };
  for (const render of Object.values(diffRenderers)) expect(render(diff, plain)).not.toContain(name);
});

describe('two reports', () => {
  const report = async (name: string): Promise<DiffSide> => ({
    snapshot: null,
    report: diagnosed(await snapshotOf(name)),
  });

  test('that are equal are called equal only for what was read', async () => {
    const side = await report('faults/missing-endpoint');
    expect(diffRenderers.table(diffBundles(side, side), plain)).toBe(
      'SAME as far as it could be compared: no new or resolved findings\n\nnot compared: a report contains no Services, endpoints or rules',
    );
  });

  test('a finding on a node that was not read is not resolved', async () => {
    const before = await report('faults/missing-endpoint');
    const unread = {name: 'node-a', status: 'unread', reason: 'no answer', families: [], rules: 0, chains: 0, settings: {}} as const;
    const after: DiffSide = {
      snapshot: null,
      report: {
        nodes: before.report.nodes.map(node => (node.name === 'node-a' ? unread : node)),
        findings: before.report.findings.filter(({node}) => node !== 'node-a'),
      },
    };
    const diff = diffBundles(before, after);
    expect(diff.findings).toEqual([]);
    expect(diff.notCompared).toContain(
      'what was found on node-a: the later side did not read it, so whether it is still there is not known',
    );
  });

  test('a finding with a higher severity is new, and the milder one is resolved', async () => {
    const {report: found} = await report('faults/missing-endpoint');
    const milder = {...found, findings: found.findings.map(finding => ({...finding, severity: 'info' as const}))};
    const {findings} = diffBundles({snapshot: null, report: milder}, {snapshot: null, report: found});
    expect(findings.filter(({finding}) => finding.code === 'ST202')).toMatchObject([
      {kind: 'came', finding: {severity: 'error'}},
      {kind: 'went', finding: {severity: 'info'}},
    ]);
  });
});
