/** Nodes of one shape share walks: what a preview lists for each node is what walks of this node alone show. */
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import {ClusterView} from '../../src/expect/cluster/cluster-view.ts';
import type {ConfigOverrides} from '../../src/expect/resolve-proxy-config.ts';
import type {PreviewChange} from '../../src/model/preview-result.ts';
import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {alikePorts} from '../../src/preview/alike-ports.ts';
import {nodeSetup, plannedConfig, actualSide, expectedSide} from '../../src/preview/sides.ts';
import {buildCluster} from '../bench/build-cluster.ts';
import {writeBundle} from '../bench/synthetic-cluster.ts';
import {previewOf} from './previews.ts';
import {withRule} from '../editable-dump.ts';
import {withFiles} from '../fixtures.ts';

const toNftables: ConfigOverrides = {mode: 'nftables'};
const snapshots = new Map<string, Snapshot>();
const temps: string[] = [];

beforeAll(async () => {
  for (const mode of ['iptables', 'nftables'] as const) {
    const temp = mkdtempSync(join(tmpdir(), 'svc-trace-nodes-'));
    temps.push(temp);
    const cluster = buildCluster({services: 60, endpoints: 3, nodes: 4, seed: 4});
    const balanced = cluster.services.filter(({type}) => type === 'LoadBalancer');
    // Some hold nodes or one of them, some pods or those of one node or a part of them, and some neither.
    const ranges = [['203.0.113.0/24'], ['172.18.0.0/16'], ['10.128.0.0/9'], ['172.18.16.2/32'], ['10.128.4.0/22'], ['10.128.4.0/25']];
    for (const [index, service] of balanced.entries()) service.sourceRanges = ranges[index % ranges.length] ?? [];
    expect(balanced.length).toBeGreaterThanOrEqual(ranges.length);
    writeBundle(temp, cluster, mode);
    snapshots.set(mode, await readBundle(temp));
  }
});

afterAll(() => {
  for (const temp of temps) rmSync(temp, {recursive: true});
});

function snapshotOf(mode: string): Snapshot {
  const found = snapshots.get(mode);
  if (found === undefined) throw new Error(`no cluster in ${mode} mode`);
  return found;
}

/** Changes a file of the third of four nodes. */
type Edit = (text: string) => string;

function edited(snapshot: Snapshot, edits: Readonly<Record<string, Edit>>): Snapshot {
  const changed = (node: NodeDump) =>
    withFiles(node, Object.fromEntries(Object.entries(edits).map(([file, edit]) => [file, edit(node.read(file)?.toString() ?? '')])));
  const nodes = snapshot.nodes.map((node, index) => (index === 2 ? changed(node) : node));
  return {...snapshot, nodes};
}

function changesOf(snapshot: Snapshot, overrides: ConfigOverrides, expectedOnly = false): readonly PreviewChange[] {
  return previewOf(snapshot, overrides, snapshot.api, {expectedOnly}).changes;
}

/** Each node in a preview of its own. */
function changesOfEach(snapshot: Snapshot, overrides: ConfigOverrides, expectedOnly = false): readonly PreviewChange[] {
  return snapshot.nodes.flatMap(({name}) => previewOf(snapshot, overrides, snapshot.api, {expectedOnly, nodes: [name]}).changes);
}

/** Whether each node has the shape of the first one, in IPv4. */
function isLikeFirst(snapshot: Snapshot, overrides: ConfigOverrides): readonly boolean[] {
  const view = new ClusterView(snapshot.api);
  const shapes = snapshot.nodes.map(node => {
    const setup = nodeSetup({node, api: snapshot.api, view, overrides: {}});
    const configAfter = plannedConfig(setup, {overrides, configFile: null});
    const before = actualSide(setup, view, 'IPv4');
    const after = expectedSide({setup, view, config: configAfter, family: 'IPv4', besideOthers: true});
    return alikePorts({setup, configAfter, before, after, viewAfter: view, expectedOnly: false}).node;
  });
  return shapes.map(shape => shape !== null && shape === shapes[0]);
}

function without(pattern: RegExp): Edit {
  return dump => {
    const rest = dump.replace(pattern, '');
    if (rest === dump) throw new Error(`nothing matches ${pattern.source}`);
    return rest;
  };
}

describe('each node has the changes of a preview of its own', () => {
  test.each<readonly [string, string, ConfigOverrides]>([
    ['from iptables to nftables mode', 'iptables', toNftables],
    ['from iptables to IPVS mode', 'iptables', {mode: 'ipvs'}],
    ['from nftables to iptables mode', 'nftables', {mode: 'iptables'}],
    ['with an older version', 'iptables', {version: 'v1.30.0'}],
    ['with a newer version of nftables mode', 'nftables', {version: 'v1.37.0'}],
    ['with other pod networks', 'iptables', {mode: 'nftables', clusterCIDRs: ['10.0.0.0/24']}],
    ['with the pod network of each node', 'iptables', {detectLocalMode: 'NodeCIDR'}],
    ['with all Services masqueraded', 'iptables', {masqueradeAll: true}],
    ['with node ports on the network of the nodes', 'iptables', {nodePortAddresses: ['172.18.0.0/16']}],
  ])('%s', (_, mode, overrides) => {
    const snapshot = snapshotOf(mode);
    expect(changesOf(snapshot, overrides)).toEqual(changesOfEach(snapshot, overrides));
    expect(changesOf(snapshot, overrides, true)).toEqual(changesOfEach(snapshot, overrides, true));
    expect(isLikeFirst(snapshot, overrides)).toEqual([true, true, true, true]);
  });
});

describe('a node that differs is walked by itself', () => {
  test.each<readonly [string, Readonly<Record<string, Edit>>]>([
    ['a rule of a third party', {'iptables-save': withRule('filter', '-A FORWARD -p tcp -m tcp --dport 8080 -j DROP')}],
    ['a rule for its own address', {'iptables-save': withRule('filter', '-A INPUT -d 172.18.16.4/32 -j DROP')}],
    ['a rule in table mangle', {'iptables-save': withRule('mangle', '-A PREROUTING -p udp -j DROP')}],
    ['a rule that matches a set', {'iptables-save': withRule('filter', '-A FORWARD -m set --match-set blocked dst -j DROP')}],
    ['a rule in a chain of kube-proxy', {'iptables-save': withRule('nat', '-A KUBE-SERVICES -p tcp -j RETURN')}],
    ['no jump from FORWARD', {'iptables-save': without(/-A FORWARD .*-j KUBE-FORWARD\n/)}],
    ['no rule that masquerades', {'iptables-save': without(/-A KUBE-POSTROUTING .*-j MASQUERADE.*\n/)}],
    ['another policy', {'iptables-save': dump => dump.replace(/(\*filter\n(?:[^*]*\n)?:FORWARD) ACCEPT/, '$1 DROP')}],
    ['another version', {'kube-proxy-version': () => 'v1.30.0\n'}],
    ['other settings', {'kube-proxy-config.yaml': text => text.replace(/clusterCIDR: .*/, 'clusterCIDR: 10.0.0.0/24')}],
    ['node ports on no address', {'kube-proxy-config.yaml': text => `${text}nodePortAddresses: [192.0.2.0/24]\n`}],
    [
      'one more address',
      {'addresses.json': text => text.replace(/(\{"family":"inet","local":)"172[^}]*\}/, '$&,$1"10.96.0.1","prefixlen":32}')},
    ],
    ['an address in a pod network', {'addresses.json': text => text.replace(/"local":"172\.18\.[^"]*"/, '"local":"10.128.200.7"')}],
    ['another interface', {'addresses.json': text => text.replaceAll('"eth0"', '"ens5"')}],
    [
      'tables of nftables',
      {'nft.txt': () => 'table ip guard {\n\tchain in {\n\t\ttype filter hook forward priority 0; policy drop;\n\t}\n}\n'},
    ],
    ['forwarding that is off', {sysctls: () => 'net.ipv4.ip_forward = 0\n'}],
    ['a program that reads a queue of rules', {'asked-by-rules': () => 'net.netfilter.queues = 3\n'}],
    ['policies of IPsec', {'asked-by-rules': () => 'net.xfrm.states = 2\nnet.xfrm.policies = 6\n'}],
    ['a table of kube-proxy that was left over', {'nft.txt': () => 'table ip kube-proxy {\n\tchain x {\n\t\taccept\n\t}\n}\n'}],
  ])('%s', (_, edits) => {
    const snapshot = edited(snapshotOf('iptables'), edits);
    expect(changesOf(snapshot, toNftables)).toEqual(changesOfEach(snapshot, toNftables));
    expect(isLikeFirst(snapshot, toNftables)).toEqual([true, true, false, true]);
  });
});

test('where rules match interfaces, a node with other routes is walked by itself', () => {
  const snapshot = snapshotOf('iptables');
  const rule = withRule('filter', '-A FORWARD -o tunl0 -p tcp -j DROP');
  const nodes = snapshot.nodes.map((node, index) =>
    withFiles(node, {
      'iptables-save': rule(node.read('iptables-save')?.toString() ?? ''),
      'routes.json': JSON.stringify([{dst: '10.128.0.0/9', dev: index === 2 ? 'tunl0' : 'eth0', table: 'main'}]),
      'ip-rules.json': JSON.stringify([{priority: 32_766, src: 'all', table: 'main'}]),
    }),
  );
  const changed = {...snapshot, nodes};
  expect(changesOf(changed, toNftables)).toEqual(changesOfEach(changed, toNftables));
  expect(isLikeFirst(changed, toNftables)).toEqual([true, true, false, true]);
});

test('a node on which one Service port deviates shares the walks of the others', () => {
  const snapshot = edited(snapshotOf('iptables'), {'iptables-save': without(/-A KUBE-SEP-\S+ .*-j DNAT.*\n/)});
  expect(isLikeFirst(snapshot, toNftables)).toEqual([true, true, true, true]);
  const changes = changesOf(snapshot, toNftables);
  expect(changes).toEqual(changesOfEach(snapshot, toNftables));
  const [first, , third] = snapshot.nodes.map(({name}) => changes.filter(({node}) => node === name).length);
  expect(third).toBeGreaterThan(first ?? 0);
});

test('a rule that jumps to the chain of a Service port makes a node differ', () => {
  const jump: Edit = dump => withRule('nat', `-A PREROUTING -p tcp -j ${/:(KUBE-SVC-\S+)/.exec(dump)?.[1]}`)(dump);
  const snapshot = edited(snapshotOf('iptables'), {'iptables-save': jump});
  expect(isLikeFirst(snapshot, toNftables)).toEqual([true, true, false, true]);
  expect(changesOf(snapshot, toNftables)).toEqual(changesOfEach(snapshot, toNftables));
});

test('endpoints of another zone are those of the node', () => {
  const given = snapshotOf('iptables');
  const zones = ['a', 'b', 'c'];
  const api = {
    ...given.api,
    nodes: (given.api.nodes ?? []).map((node, index) => ({
      ...node,
      metadata: {...node.metadata, labels: {...node.metadata.labels, 'topology.kubernetes.io/zone': zones[index % 2] ?? ''}},
    })),
    endpointSlices: (given.api.endpointSlices ?? []).map(slice => ({
      ...slice,
      endpoints: (slice.endpoints ?? []).map((endpoint, index) => ({...endpoint, hints: {forZones: [{name: zones[index % 3] ?? ''}]}})),
    })),
  };
  const snapshot = {...given, api};
  const changes = changesOf(snapshot, toNftables);
  expect(changes.length).toBeGreaterThan(0);
  expect(changes).toEqual(changesOfEach(snapshot, toNftables));
});

test('Service ports that share a node port are walked on each node', () => {
  const given = snapshotOf('iptables');
  const services = given.api.services ?? [];
  const port = services.flatMap(({spec}) => spec?.ports?.flatMap(({nodePort}) => nodePort ?? []) ?? [])[0];
  const shared = services.map(service =>
    service.spec?.type === 'LoadBalancer'
      ? {...service, spec: {...service.spec, ports: service.spec.ports?.map(one => ({...one, nodePort: port}))}}
      : service,
  );
  const snapshot = {...given, api: {...given.api, services: shared}} as Snapshot;
  expect(changesOf(snapshot, toNftables)).toEqual(changesOfEach(snapshot, toNftables));
});
