import {expect, test} from 'vitest';
import type {PacketOutcome} from '../../../src/analyze/packet-rules.ts';
import {packetRenderers} from '../../../src/render/table/packet-report.ts';
import {tree} from '../../../src/render/table/tree.ts';
import {askNodes} from '../../../src/run/packet/packet-flags.ts';
import {CiliumTables} from '../../cilium-node.ts';
import {containing} from '../../scenario.ts';

/** A node of Cilium whose map a test changes after its agent wrote it. */
function given(change: (map: Record<string, string[]>, tables: CiliumTables) => void = () => {}): CiliumTables {
  const tables = new CiliumTables().writeMap();
  change(tables.map, tables);
  return tables;
}

const clusterIP = '10.96.1.1:80/TCP';
const balancer = '192.0.2.10:80/TCP';
const options = {color: false, links: false, width: 160, verbose: false, quiet: false, failOn: 'error'} as const;

function trace(tables: CiliumTables): string {
  return tree(tables.report({trace: true}), options);
}

function answers(tables: CiliumTables, flags: {readonly source: string; readonly destination: string; readonly port?: string}) {
  return askNodes({port: '80', namespace: 'shop', ...flags}, tables.snapshot());
}

function ask(...input: Parameters<typeof answers>): Pick<PacketOutcome, 'verdict' | 'destination' | 'probability' | 'reason'>[] {
  const [answer] = answers(...input);
  return (answer?.outcomes ?? []).map(({verdict, destination, probability, reason = ''}) => ({verdict, destination, probability, reason}));
}

const [pod, outside] = ['10.1.0.1', '203.0.113.9'];
const half = (destination: string) => ({
  verdict: 'accept',
  destination,
  probability: 0.5,
  reason: containing('policies of Cilium, which may drop it'),
});
const both = [half('10.1.0.1:8080'), half('10.1.1.2:8080')];

test('packet does not count an address in the map that the API does not have as an endpoint', () => {
  const stale = given(map => void map[clusterIP]?.push('10.1.1.9:8080'));
  const [first] = packetRenderers.tree(answers(stale, {source: pod, destination: 'web'}), options).split('\n');
  expect(first).toMatch(/2 endpoints, 33\.3% each or sent to 10\.1\.1\.9:8080, no endpoint \(33\.3%\)$/);
});

test('trace draws entry, agent, map and endpoints', () => {
  expect(trace(given())).toContain(`
   ├─ cluster IP 10.96.1.1:80 from a pod of this node → agent's table → kernel's map
   │  ├─ ✓   50% 10.1.0.1:8080  no pod on node-a, ready
   │  └─ ✓   50% 10.1.1.2:8080  no pod on node-b, ready
   ├─ load-balancer IP 192.0.2.10:80 from an allowed source range → agent's table → kernel's map
`);
});

test('trace marks what the map keeps, lacks and does not have at an address, and what the agent does not have', () => {
  expect(trace(given(map => void map[clusterIP]?.push('10.1.1.9:8080')))).toContain(
    '✗ 33.3% 10.1.1.9:8080  not an endpoint of the Service  stale',
  );
  expect(trace(given(map => void map[clusterIP]?.pop()))).toContain('✗    0% 10.1.1.2:8080  no pod on node-b, ready  missing');
  const gone = trace(given(map => void delete map['172.18.0.2:30080/TCP']));
  expect(gone).toContain("not rewritten: the kernel's map does not have 172.18.0.2:30080/TCP");
  const tables = new CiliumTables();
  tables.rows = tables.rows.filter(({type}) => type !== 'LoadBalancer');
  expect(trace(tables.writeMap())).toContain('not rewritten: the agent does not have it');
});

test('trace says of a node that an annotation of the Service leaves out why it has no entry', () => {
  const tables = new CiliumTables();
  const [web, dns] = tables.api.services ?? [];
  const services = [web, dns]
    .flatMap(one => one ?? [])
    .map(one => ({...one, metadata: {...one.metadata, annotations: {'service.cilium.io/node': 'x'}}}));
  tables.api = {...tables.api, services, nodes: [{metadata: {name: 'node-a', labels: {}}}]};
  tables.rows = [];
  expect(trace(tables)).toContain('○ cluster IP 10.96.1.1:80: no rules: the Service');
});

test('packet answers from the map, by its slots, and says which entry it used', () => {
  expect(ask(given(), {source: pod, destination: 'web'})).toEqual(both);
  const slots = given(map => (map[clusterIP] = ['ClusterIP', '10.1.9.9:8080', 'backend 12 not found']));
  expect(ask(slots, {source: pod, destination: 'web'})).toEqual([
    {...half('10.1.9.9:8080'), reason: 'no endpoint of shop/web:http'},
    {verdict: 'drop', destination: null, probability: 0.5, reason: containing('no backend')},
  ]);
  const text = packetRenderers.tree(answers(slots, {source: pod, destination: 'web'}), options);
  expect(text).toContain('cilium 10.96.1.1:80/TCP [ClusterIP] → 10.1.9.9:8080');
});

test('packet knows clients outside: source ranges, cluster IPs that are not routable, and wildcards', () => {
  const at = (source: string, tables = given(), port = '80') => ask(tables, {source, destination: '192.0.2.10', port});
  expect(at(outside)).toEqual(both);
  expect(at('198.51.100.1')).toMatchObject([{verdict: 'drop', reason: containing('do not admit 198.51.100.1')}]);
  expect(at(pod)).toEqual(both);
  expect(
    at(
      outside,
      given(map => map[balancer]?.splice(0, 1, 'LoadBalancer, check source-range, deny')),
    ),
  ).toMatchObject([{verdict: 'drop'}]);
  const hidden = given(map => map[clusterIP]?.splice(0, 1, 'ClusterIP, non-routable'));
  expect(ask(hidden, {source: outside, destination: 'web'})).toMatchObject([{verdict: 'drop', reason: containing('non-routable')}]);
  expect(ask(hidden, {source: pod, destination: 'web'})).toEqual(both);
  const wildcard = given(map => (map['192.0.2.10:0/ANY'] = ['LoadBalancer, non-routable']));
  expect(at(outside, wildcard, '22')).toMatchObject([{verdict: 'drop', reason: containing('a port without a Service')}]);
  expect(at(pod, wildcard, '22')).toMatchObject([{verdict: 'undecided'}]);
});

test('packet asks the inner scope for pods and nodes, and does not guess who an unknown private address is', () => {
  const scopes = (known: boolean) =>
    given((map, tables) => {
      map[balancer] = ['LoadBalancer, Local, two-scopes', '10.1.0.1:8080'];
      map[`${balancer}/i`] = ['LoadBalancer, Local, two-scopes', '10.1.0.1:8080', '10.1.1.2:8080'];
      if (!known) tables.api = {...tables.api, podsOf: new Set()};
    });
  const at = (source: string, known = true) => ask(scopes(known), {source, destination: '192.0.2.10'});
  expect(at(pod)).toEqual(both);
  expect(at(outside)).toMatchObject([{destination: '10.1.0.1:8080', probability: 1}]);
  expect(at('10.9.9.9')).toMatchObject([{destination: '10.1.0.1:8080', probability: 1}]);
  expect(at('10.9.9.9', false)).toMatchObject([{verdict: 'undecided', reason: containing('give --source pod/NAME')}]);
});

test('packet reaches node ports at any node from inside, and at the addresses of the map alone from outside', () => {
  const nodePort = (source: string, destination: string) =>
    ask(
      given(map => void delete map['172.18.0.2:30080/TCP']),
      {source, destination, port: '30080'},
    );
  expect(nodePort(pod, '172.18.0.2')).toEqual(both);
  expect(nodePort(pod, '127.0.0.1')).toEqual(both);
  expect(nodePort(outside, '172.18.0.2')).toMatchObject([{verdict: 'undecided', reason: containing('has no entry for it')}]);
});

test('packet says that it cannot be told where the map was not read, is of an older version, or sends to a proxy', () => {
  const why = (change: (tables: CiliumTables) => unknown) =>
    ask(
      given((_, tables) => void change(tables)),
      {source: pod, destination: 'web'},
    );
  expect(why(({files}) => (files['bpf-lb-list.json'] = undefined))).toMatchObject([
    {verdict: 'undecided', reason: containing('bpf-lb-list.json')},
  ]);
  expect(why(tables => (tables.version = '1.17.4'))).toMatchObject([{verdict: 'undecided', reason: containing('this is 1.17.4')}]);
  expect(why(({map}) => map[clusterIP]?.splice(0, 1, 'ClusterIP, l7-load-balancer'))).toMatchObject([
    {verdict: 'undecided', reason: containing('proxy')},
  ]);
  expect(why(({map}) => void map[clusterIP]?.splice(1))).toMatchObject([{verdict: 'reject', reason: containing('has no backend')}]);
});
