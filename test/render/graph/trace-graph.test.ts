import {expect, test} from 'vitest';
import type {EndpointTrace, EntryTrace} from '../../../src/model/service-trace.ts';
import {type TraceGraph, traceGraphs} from '../../../src/render/graph/trace-graph.ts';
import {numbered, ruleOf} from '../report.ts';
import {endpoint, entry, trace, traced} from '../traces.ts';

const few = {all: false};

/** Each arrow with the first line of its ends. */
function arrowsOf(graph: TraceGraph | undefined): readonly string[] {
  const name = (id: string): string => graph?.boxes.find(box => box.id === id)?.lines[0] ?? '?';
  return (graph?.arrows ?? []).map(({from, to, label, isFault}) => `${name(from)} ${isFault ? '-✗' : '-'}${label}> ${name(to)}`);
}

test('a missing endpoint and those that got its share are faults, on that node only', async () => {
  const {traces} = await traced('faults/missing-endpoint', 'shop/web');
  const [first, second, ...more] = traceGraphs(traces, few);
  expect(more).toEqual([]);
  expect(first?.title).toBe('shop/web:http port 80/TCP on node-a');
  expect(second?.title).toBe('shop/web:http port 80/TCP on node-b, node-c (line numbers of node-b)');
  expect(arrowsOf(first).toSorted()).toEqual(
    [
      'cluster IP 10.96.1.1:80 -line 404> KUBE-SVC-67NZLRHBNDSAWJRO',
      'KUBE-SVC-67NZLRHBNDSAWJRO -33.3%> KUBE-SEP-M5HVGPPKKJ75V6WO',
      'KUBE-SEP-M5HVGPPKKJ75V6WO -line 345> ✓ 10.244.11.4:8080',
      'KUBE-SVC-67NZLRHBNDSAWJRO -✗0%> ✗ 10.244.11.5:8080 missing',
      'KUBE-SVC-67NZLRHBNDSAWJRO -✗66.7%> KUBE-SEP-YE46JM77HMULEYF6',
      'KUBE-SEP-YE46JM77HMULEYF6 -✗line 399> ✗ 10.244.12.4:8080 should be 33.3%',
    ].toSorted(),
  );
  expect(second?.boxes.filter(({isFault}) => isFault)).toEqual([]);
});

test('entries that meet in a chain share the path after it', async () => {
  const {traces} = await traced('healthy/1.36-iptables', 'shop/lb-local', 'node-a');
  const arrows = arrowsOf(traceGraphs(traces, few)[0]);
  expect(arrows.filter(arrow => arrow.endsWith('> KUBE-SVL-THAONNFDF5XMLPVB'))).toHaveLength(2);
  expect(arrows.filter(arrow => arrow.startsWith('KUBE-SVL-THAONNFDF5XMLPVB'))).toEqual([
    'KUBE-SVL-THAONNFDF5XMLPVB -100%> KUBE-SEP-ZEWLAGZA6XM3J5XU',
  ]);
});

test.each(['ipvs/1.36', 'nftables/1.36'])('a chain that both balances and translates is drawn once: %s', async capture => {
  const {traces} = await traced(capture, 'shop/web', 'node-a');
  const kinds = traceGraphs(traces, few).map(({boxes}) => boxes.map(({kind}) => kind).toSorted());
  expect(kinds).toEqual([['chain', 'endpoint', 'endpoint', 'endpoint', 'entry']]);
});

test('packets that are rejected or dropped by design end in a box that is not a fault', async () => {
  const {traces} = await traced('healthy/1.36-iptables', 'shop/lb-local', 'node-b');
  const ends = traceGraphs(traces, few).flatMap(({boxes}) => boxes.filter(({kind}) => kind === 'end'));
  expect(ends).toHaveLength(2);
  for (const {lines, isFault} of ends) {
    expect(lines).toEqual([
      '○ dropped (DROP): externalTrafficPolicy is Local, and no endpoint is on this node',
      expect.stringMatching(/^filter\/KUBE-EXTERNAL-SERVICES line \d+$/),
    ]);
    expect(isFault).toBe(false);
  }
});

test('an entry without an endpoint is a fault, and so is its end', () => {
  const lost: EntryTrace = {...entry, mark: 'missing', endpoints: [], end: {verdict: 'passed', rule: null}};
  const [graph] = traceGraphs([{...trace, entries: [lost]}], few);
  expect(graph?.boxes.map(({lines, isFault}) => [lines.join('|'), isFault])).toEqual([
    ['cluster IP 10.96.0.1:80|from a pod|✗ reaches no endpoint', true],
    ['✗ not rewritten: no rule matches|wrong', true],
  ]);
});

test('an entry shows its fault itself if no box does', () => {
  const [graph] = traceGraphs([{...trace, entries: [{...entry, mark: 'wrong'}]}], few);
  expect(graph?.boxes[0]).toMatchObject({lines: ['cluster IP 10.96.0.1:80', 'from a pod', '✗ wrong'], isFault: true});
});

test('masquerading is shown where it begins: at the entry, or at the endpoints concerned', () => {
  const steps = [{...ruleOf('', 7), to: 'KUBE-SVC-A'}];
  const nodePort: EntryTrace = {
    ...{...entry, steps, entry: {kind: 'nodePort', address: null, port: 30_080}},
    endpoints: [{...endpoint, masquerade: true}],
  };
  const [together] = traceGraphs([{...trace, entries: [{...entry, steps}, nodePort]}], few);
  expect(arrowsOf(together).filter(arrow => arrow.includes('KUBE-SVC-A') && arrow.includes('line'))).toEqual([
    'cluster IP 10.96.0.1:80 -line 7> KUBE-SVC-A',
    'node port 30080 -line 7, masqueraded> KUBE-SVC-A',
  ]);
  const mixed = [
    {...endpoint, share: 0.5, masquerade: true},
    {...endpoint, share: 0.5, hostPort: '10.0.0.2:80', rewrite: {...ruleOf('', 3), chain: 'KUBE-SEP-B'}},
  ];
  expect(arrowsOf(traceGraphs([{...trace, entries: [{...entry, steps, endpoints: mixed}]}], few)[0])).toEqual([
    'cluster IP 10.96.0.1:80 -line 7> KUBE-SVC-A',
    'KUBE-SEP-A -line 2> ✓ 10.0.0.1:80',
    'KUBE-SVC-A -50%, masqueraded> KUBE-SEP-A',
    'KUBE-SEP-B -line 3> ✓ 10.0.0.2:80',
    'KUBE-SVC-A -50%> KUBE-SEP-B',
  ]);
});

test('of hundreds of endpoints a few are drawn, and as many faulty ones as fit', () => {
  const made = (mark: EndpointTrace['mark']) =>
    numbered('10.0.0', 300).map((hostPort): EndpointTrace => ({...endpoint, hostPort, share: 1 / 300, mark, rewrite: null}));
  const boxesOf = (endpoints: readonly EndpointTrace[], all = false) =>
    traceGraphs([{...trace, entries: [{...entry, endpoints}]}], {all})[0]?.boxes.filter(({kind}) => kind === 'endpoint') ?? [];
  expect(boxesOf(made('ok'))).toHaveLength(6);
  expect(boxesOf(made('ok')).at(-1)?.lines).toEqual(['✓ 295 more endpoints', 'in sync']);
  expect(boxesOf(made('stale'))).toHaveLength(41);
  expect(boxesOf(made('stale')).at(-1)).toMatchObject({lines: ['✗ 260 more endpoints', 'faulty'], isFault: true});
  expect(boxesOf(made('stale'), true)).toHaveLength(300);
});
