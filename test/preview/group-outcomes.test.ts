/** Service ports that no rule distinguishes share one walk: what a preview lists is what walks of each by itself show. */
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import type {ConfigOverrides} from '../../src/expect/resolve-proxy-config.ts';
import type {EndpointSliceObject, NodeObject} from '../../src/model/api-objects.ts';
import type {PreviewChange} from '../../src/model/preview-result.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {twoServices} from '../analyze/two-services.ts';
import {buildCluster} from '../bench/build-cluster.ts';
import type {Cluster} from '../bench/model.ts';
import {seededRandom} from '../bench/random.ts';
import {writeBundle} from '../bench/synthetic-cluster.ts';
import {nodeDump} from '../cluster.ts';
import {snapshotOf, withFiles} from '../fixtures.ts';
import {writtenNode} from '../rendered-node.ts';
import {previewOf} from './previews.ts';

let temp: string;
let cluster: Cluster;
let snapshot: Snapshot;

beforeAll(async () => {
  temp = mkdtempSync(join(tmpdir(), 'svc-trace-groups-'));
  cluster = buildCluster({services: 60, endpoints: 3, nodes: 1, seed: 4});
  const balanced = cluster.services.filter(({type}) => type === 'LoadBalancer');
  // Some hold the node, some its pods, and some neither.
  for (const [index, service] of balanced.entries())
    service.sourceRanges = [['203.0.113.0/24'], ['172.18.0.0/16'], ['10.128.0.0/9'], ['192.0.2.0/25']][index % 4] ?? [];
  writeBundle(temp, cluster);
  snapshot = await readBundle(temp);
});

afterAll(() => rmSync(temp, {recursive: true}));

interface Change {
  /** Rules in front of all others, as `TABLE RULE`. */
  readonly rules?: readonly string[];
  readonly overrides?: ConfigOverrides;
  /** No two Service ports count as alike. */
  readonly each?: boolean;
}

/** A chain that nothing jumps to. It matches a set, of which nothing is known, so that every Service port is walked by itself. */
const unused = 'filter -A UNUSED -m set --match-set unknown dst -j RETURN';

function changesOf({rules = [], overrides = {mode: 'nftables'}, each = false}: Change): readonly PreviewChange[] {
  const added = each ? [...rules, unused] : rules;
  const nodes = snapshot.nodes.map(node =>
    withFiles(node, {'iptables-save': added.reduceRight(withRule, node.read('iptables-save')?.toString() ?? '')}),
  );
  return previewOf({...snapshot, nodes}, overrides).changes;
}

/** Puts a rule at the start of its chain. */
function withRule(dump: string, placed: string): string {
  const [table = '', , chain = ''] = placed.split(' ');
  const rule = placed.slice(table.length + 1);
  const start = dump.indexOf(`*${table}\n`);
  const head = start < 0 ? `*${table}\n:${chain} ACCEPT [0:0]\nCOMMIT\n` : '';
  const whole = head + dump;
  const from = whole.indexOf(`*${table}\n`);
  const end = whole.indexOf('\nCOMMIT', from) + 1;
  const first = whole.indexOf(`\n-A ${chain} `, from) + 1;
  const declared = whole.slice(from, end).includes(`:${chain} `);
  const at = first > 0 && first < end ? first : end;
  return `${whole.slice(0, at)}${declared ? '' : `:${chain} - [0:0]\n`}${rule}\n${whole.slice(at)}`;
}

/** An endpoint of a Service with a node port. */
function endpoint(): {readonly address: string; readonly port: number} {
  const service = cluster.services.find(({ports, endpoints}) => (ports[0]?.nodePort ?? 0) > 0 && endpoints.IPv4.length > 2);
  const [, second] = service?.endpoints.IPv4 ?? [];
  if (second === undefined) throw new Error('no Service has a node port');
  return {address: second.address, port: service?.ports[0]?.targetPort ?? 0};
}

/** An address beside that of the endpoint. */
function inNetwork(host: number): string {
  return endpoint().address.replace(/\d+$/, String(host));
}

/** By packet: groups are listed together. */
function inOrder(changes: readonly PreviewChange[]): readonly PreviewChange[] {
  const key = ({service, port, packet}: PreviewChange) => JSON.stringify([service, port, packet]);
  return changes.toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
}

describe('grouped outcomes equal those of walks of each Service port', () => {
  test.each<readonly [string, () => Change]>([
    ['with kube-proxy alone', () => ({})],
    ['with an older version', () => ({overrides: {mode: 'iptables', version: 'v1.30.0'}})],
    ['without the masquerade rules of pods', () => ({overrides: {mode: 'nftables', clusterCIDRs: ['10.0.0.0/24']}})],
    ['with a move to IPVS mode', () => ({overrides: {mode: 'ipvs'}})],
    ['beside a rule for the address of one endpoint', () => ({rules: [`filter -A FORWARD -d ${endpoint().address}/32 -j DROP`]})],
    [
      'beside one for a range around it',
      () => ({rules: [`nat -A KUBE-POSTROUTING -m iprange --dst-range ${inNetwork(0)}-${inNetwork(255)} -j DROP`]}),
    ],
    ['beside one for the port of endpoints', () => ({rules: [`filter -A FORWARD -p tcp -m tcp --dport ${endpoint().port} -j DROP`]})],
    ['beside one in table raw', () => ({rules: [`raw -A PREROUTING -d ${endpoint().address}/32 -j CT --notrack`]})],
    ['beside one in table mangle', () => ({rules: [`mangle -A FORWARD -d ${endpoint().address}/32 -j DROP`]})],
    ['beside a translation of the source', () => ({rules: [`nat -A POSTROUTING -d ${endpoint().address}/32 -j MASQUERADE`]})],
    ['beside a mark', () => ({rules: ['filter -A FORWARD -m mark --mark 0x4000/0x4000 -j DROP']})],
    ['beside an interface', () => ({rules: ['filter -A FORWARD -i eth7 -j DROP']})],
    ['beside a state', () => ({rules: ['filter -A FORWARD -m conntrack --ctstate NEW -m tcp -p tcp --dport 8080 -j DROP']})],
    [
      'beside chance',
      () => ({rules: [`filter -A FORWARD -d ${endpoint().address}/32 -m statistic --mode random --probability 0.5 -j DROP`]}),
    ],
    [
      'beside a rate',
      () => ({rules: ['filter -A FORWARD -p tcp -m hashlimit --hashlimit-upto 5/sec --hashlimit-burst 5 --hashlimit-name x -j DROP']}),
    ],
    ['beside the mark of kube-proxy', () => ({rules: [`nat -A KUBE-POSTROUTING -d ${endpoint().address}/32 -j RETURN`]})],
  ])('%s', (_, given) => {
    const change = given();
    expect(inOrder(changesOf(change))).toEqual(inOrder(changesOf({...change, each: true})));
  });
});

test('network policies of kube-router stay after the change', () => {
  const policy = [
    'filter -A FORWARD -j KUBE-ROUTER-FORWARD',
    `filter -A KUBE-ROUTER-FORWARD -d ${endpoint().address}/32 -j KUBE-POD-FW-Z7K3WNVRPZXHL2PO`,
    'filter -A KUBE-POD-FW-Z7K3WNVRPZXHL2PO -j REJECT',
  ];
  const changes = changesOf({rules: policy});
  expect(changes.filter(({effect}) => effect === 'gained')).toEqual([]);
  expect(inOrder(changes)).toEqual(inOrder(changesOf({rules: policy, each: true})));
});

test('a rule for one endpoint affects its Service alone', () => {
  const changes = changesOf({
    rules: [`nat -A POSTROUTING -d ${endpoint().address}/32 -j MASQUERADE`],
    overrides: {mode: 'iptables', masqueradeAll: true},
  });
  expect(changes.length).toBeGreaterThan(0);
});

test('in nftables mode, a Service that another one drops packets to is not like those that it serves', async () => {
  const capture = await snapshotOf('nftables/1.33');
  const [node] = capture.nodes;
  const dump = node?.read('nft.json')?.toString() ?? '';
  const zonal = /"(service-[^"]*shop\/zonal[^"]*)"/.exec(dump)?.[1] ?? '';
  const rule = (table: string, chain: string, daddr: object | string, verdict: object): string =>
    `{"rule": {"family": "ip", "table": "${table}", "chain": "${chain}", "handle": 999, "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "daddr"}}, "right": ${JSON.stringify(daddr)}}}, ${JSON.stringify(verdict)}]}}`;
  const before = (text: string, chain: string, added: string): string =>
    text.replace(`{"rule": {"family": "ip", "table": "kube-proxy", "chain": "${chain}"`, first => `${added}, ${first}`);
  const led = before(dump, 'services', rule('kube-proxy', 'services', {prefix: {addr: '10.96.0.0', len: 12}}, {goto: {target: zonal}}));
  const dropping = before(led, zonal, rule('kube-proxy', zonal, '10.96.1.2', {drop: null}));
  // A set, of which nothing is known: every Service port is walked by itself.
  const each = dropping.replace(/\]\}\s*$/, `, ${rule('other', 'unused', '@unknown', {accept: null})}]}`);
  const [grouped, walked] = [dropping, each].map(text => {
    const read = (file: string) =>
      file === 'nft.json' ? Buffer.from(text) : file === 'nft-ruleset.json' ? null : (node?.read(file) ?? null);
    return previewOf({...capture, nodes: [{name: 'node-a', files: node?.files ?? [], read}]}, {mode: 'iptables'}).changes;
  });
  const gained = walked?.filter(({effect, entry}) => effect === 'gained' && entry.kind === 'clusterIP').map(({service}) => service.name);
  expect(gained).toContain('unnamed-port');
  expect(gained).not.toContain('web');
  expect(inOrder(grouped ?? [])).toEqual(inOrder(walked ?? []));
});

test.each([
  ['a', 'b'],
  ['b', 'a'],
])('in nftables mode, a rule that leads all packets to the chain of %s changes those to %s alone', (target, other) => {
  const api = twoServices('ClusterIP');
  const given = nodeDump('node-a', {
    'kube-proxy-version': 'v1.36.0\n',
    'kube-proxy-config.yaml': 'mode: nftables\nclusterCIDR: 10.244.0.0/16\n',
  });
  const node = writtenNode(given, api, {mode: 'nftables', random: seededRandom(1)});
  const text = node.read('nft.txt')?.toString() ?? '';
  const chain = new RegExp(`goto (service-\\S+-shop/${target}/tcp/http)`).exec(text)?.[1];
  const led = text.replace('\tchain services {\n', `$&\t\ttcp dport 80 goto ${chain}\n`);
  const nodes = [withFiles(node, {'nft.txt': led})];
  const {changes} = previewOf({origin: 'two Services', api, problems: [], nodes}, {mode: 'iptables'});
  const shares = changes.filter(({effect}) => effect === 'shares');
  expect(new Set(shares.map(({service}) => service.name))).toEqual(new Set([other]));
});

test('a node whose rules do not refuse packets to unused ports of a cluster IP is not like one whose rules do', () => {
  const given = twoServices('ClusterIP');
  const other: NodeObject = {
    metadata: {name: 'node-b'},
    spec: {podCIDRs: ['10.244.3.0/24']},
    status: {addresses: [{type: 'InternalIP', address: '192.168.1.11'}]},
  };
  const api = {...given, nodes: [...(given.nodes ?? []), other]};
  const files = {'kube-proxy-version': 'v1.36.0\n', 'kube-proxy-config.yaml': 'mode: nftables\nclusterCIDR: 10.244.0.0/16\n'};
  const [first, second] = ['node-a', 'node-b'].map(name =>
    writtenNode(nodeDump(name, files), api, {mode: 'nftables', random: seededRandom(1)}),
  );
  if (first === undefined || second === undefined) throw new Error('there are no nodes');
  const ruleset = second.read('nft.txt')?.toString() ?? '';
  const without = ruleset.replace(/elements = \{ 10\.96\.0\.10, /, 'elements = { ');
  expect(without).not.toBe(ruleset);
  const nodes = [first, withFiles(second, {'nft.txt': without})];
  const advice = (names: readonly string[]) =>
    previewOf({origin: 'two nodes', api, problems: [], nodes}, {version: 'v1.37.0'}, api, {nodes: names}).advice.map(({id}) => id);
  expect(advice(['node-a'])).not.toContain('healed');
  // A restart without the new version writes the missing rules too.
  expect(advice(['node-a', 'node-b'])).toContain('healed');
});

test('a Service whose endpoints alone change is not like those whose endpoints stay', () => {
  const api = twoServices('ClusterIP');
  const [first, second] = api.endpointSlices ?? [];
  const moved = {...second, endpoints: [{addresses: ['10.244.2.99'], conditions: {ready: true}}]} as EndpointSliceObject;
  const given = nodeDump('node-a', {
    'kube-proxy-version': 'v1.36.0\n',
    'kube-proxy-config.yaml': 'mode: iptables\nclusterCIDR: 10.244.0.0/16\n',
  });
  const node = writtenNode(given, api, {mode: 'iptables', random: seededRandom(1)});
  const after = {...api, endpointSlices: [...(first === undefined ? [] : [first]), moved]};
  const {changes} = previewOf({origin: 'two Services', api, problems: [], nodes: [node]}, {}, after);
  expect(new Set(changes.map(({service}) => service.name))).toEqual(new Set(['b']));
  expect(changes[0]).toMatchObject({before: [{destination: '10.244.2.11:8080'}], after: [{destination: '10.244.2.99:8080'}]});
});
