/** Service ports whose rules on a node are faulty share walks too: what a preview lists is what walks of each by itself show. */
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import {ClusterView} from '../../src/expect/cluster/cluster-view.ts';
import type {ConfigOverrides} from '../../src/expect/resolve-proxy-config.ts';
import {addressInside, parseCidr} from '../../src/model/address.ts';
import type {PreviewChange} from '../../src/model/preview-result.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {alikePorts, type PortGroup} from '../../src/preview/alike-ports.ts';
import {nodeSetup, plannedConfig, actualSide, expectedSide} from '../../src/preview/sides.ts';
import {someOf} from '../cases.ts';
import {buildCluster} from '../bench/build-cluster.ts';
import type {Cluster, Service} from '../bench/model.ts';
import {withReplacedEndpoints} from '../bench/replace-endpoints.ts';
import {writeApiObjects, writeBundle} from '../bench/synthetic-cluster.ts';
import {previewOf} from './previews.ts';
import {withRule} from '../editable-dump.ts';
import {withFiles} from '../fixtures.ts';

const temps: string[] = [];
let cluster: Cluster;
/** kube-proxy is in sync. */
let synced: Snapshot;
/** Four of ten endpoints have another address than in the rules. */
let stopped: Snapshot;
/** The same, and some of the old addresses have become those of others. */
let reused: Snapshot;

beforeAll(async () => {
  cluster = buildCluster({services: 60, endpoints: 4, nodes: 1, seed: 7});
  const balanced = cluster.services.filter(({type}) => type === 'LoadBalancer');
  for (const [index, service] of balanced.entries())
    service.sourceRanges = [['203.0.113.0/24'], ['172.18.0.0/16'], ['10.128.0.0/9'], []][index % 4] ?? [];
  const moved = withReplacedEndpoints(cluster, 0.4, 7);
  synced = await bundleOf(cluster, cluster);
  stopped = await bundleOf(cluster, moved);
  reused = await bundleOf(withReusedAddresses(), moved);
});

afterAll(() => {
  for (const temp of temps) rmSync(temp, {recursive: true});
});

/** The rules are those of one state of the cluster, the API objects those of another. */
function bundleOf(rules: Cluster, objects: Cluster): Promise<Snapshot> {
  const temp = mkdtempSync(join(tmpdir(), 'svc-trace-faulty-'));
  temps.push(temp);
  writeBundle(temp, rules);
  writeApiObjects(temp, objects);
  return readBundle(temp);
}

/** An endpoint of some Services had the address of a Service, of the node, of a client of the probes, or of an endpoint of today. */
function withReusedAddresses(): Cluster {
  const [node] = cluster.nodes;
  const [target] = plainServices();
  const podNetwork = parseCidr(node?.podCIDR.IPv4 ?? '');
  if (podNetwork === null) throw new Error('the node has no pods');
  const client = addressInside(podNetwork, new Set()) ?? '';
  const addresses = [
    target?.clusterIPs[0],
    node?.address.IPv4,
    target?.endpoints.IPv4[0]?.address,
    ...Array.from({length: 9}, () => client),
  ];
  const owners = plainServices().slice(2);
  const services = cluster.services.map(service => {
    const address = addresses[owners.indexOf(service)];
    if (address === undefined) return service;
    const [first, ...others] = service.endpoints.IPv4;
    return first === undefined ? service : {...service, endpoints: {...service.endpoints, IPv4: [{...first, address}, ...others]}};
  });
  return {...cluster, services};
}

/** Services of one port with ready endpoints and no Local policy. */
function plainServices(): readonly Service[] {
  return cluster.services.filter(
    ({ports, endpoints, externalLocal, internalLocal, families}) =>
      ports.length === 1 && endpoints.IPv4.length > 2 && !externalLocal && !internalLocal && families[0] === 'IPv4',
  );
}

type Edit = (dump: string) => string;

function edited(snapshot: Snapshot, edits: readonly Edit[]): Snapshot {
  const nodes = snapshot.nodes.map(node => {
    const change = (file: string) => edits.reduce((text, edit) => edit(text), node.read(file)?.toString() ?? '');
    return withFiles(node, {'iptables-save': change('iptables-save'), 'ip6tables-save': change('ip6tables-save')});
  });
  return {...snapshot, nodes};
}

/** Drops or changes the rules that a pattern matches, of one Service each: those in `places` among all that match. */
function changed(pattern: RegExp, places: readonly number[], to: (line: string) => string | null): Edit {
  return dump => {
    let count = 0;
    return dump
      .split('\n')
      .flatMap(line => (pattern.test(line) && places.includes(count++) ? (to(line) ?? []) : line))
      .join('\n');
  };
}

const without = (): null => null;
const some = [0, 7, 8, 21];

/** A chain that nothing jumps to. It matches a set, of which nothing is known, so that every Service port is walked by itself. */
const eachAlone = withRule('filter', '-A UNUSED -m set --match-set unknown dst -j RETURN');

function changesOf(snapshot: Snapshot, overrides: ConfigOverrides): readonly PreviewChange[] {
  const key = ({service, port, packet}: PreviewChange) => JSON.stringify([service, port, packet]);
  return previewOf(snapshot, overrides).changes.toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
}

function groupsOf(snapshot: Snapshot): readonly PortGroup[] {
  const [node] = snapshot.nodes;
  if (node === undefined) throw new Error('no node');
  const view = new ClusterView(snapshot.api);
  const setup = nodeSetup({node, api: snapshot.api, view, overrides: {}});
  const configAfter = plannedConfig(setup, {overrides: {mode: 'nftables'}, configFile: null});
  const before = actualSide(setup, view, 'IPv4');
  const after = expectedSide({setup, view, config: configAfter, family: 'IPv4', besideOthers: true});
  return alikePorts({setup, configAfter, before, after, viewAfter: view, expectedOnly: false}).groups;
}

/** Of the Service port that is walked for most others. */
function leadingChain(): string {
  const [largest] = groupsOf(synced).toSorted((a, b) => b.pairs.length - a.pairs.length);
  const hash = largest?.pairs[0]?.known.port.hash;
  if (hash === undefined || (largest?.pairs.length ?? 0) < 4) throw new Error('no Service ports are alike');
  return `KUBE-SVC-${hash}`;
}

function addressOf(index: number, endpoint: number): string {
  return plainServices()[index]?.endpoints.IPv4[endpoint]?.address ?? '';
}

const faults: Readonly<Record<string, () => readonly Edit[]>> = {
  'nothing else': () => [],
  'rules of endpoints missing': () => [changed(/ -j KUBE-SEP-/, some, without)],
  'endpoint chains that send packets elsewhere': () => [
    changed(/ --to-destination 10\./, some, line => line.replace(/--to-destination \S+:/, '--to-destination 10.129.0.77:')),
  ],
  'the rule for its own packets missing': () => [changed(/^-A KUBE-SEP-.* -j KUBE-MARK-MASQ$/, some, without)],
  'affinity missing': () => [changed(/^-A KUBE-SVC-.* --rcheck /, some, without)],
  'affinity that enters no client': () => [changed(/^-A KUBE-SEP-.* --set /, some, line => line.replace(/-m recent .*?--rsource /, ''))],
  'source ranges missing': () => [changed(/^-A KUBE-FW-.* -s /, [0], without)],
  'other source ranges': () => [changed(/^-A KUBE-FW-.*-s 203/, [0], line => line.replace('203.0.113.0/24', '203.0.112.0/23'))],
  'entries missing': () => [changed(/^-A KUBE-SERVICES .* -j KUBE-(?:SVC|EXT)-/, some, without)],
  'node ports missing': () => [changed(/^-A KUBE-NODEPORTS .* -j KUBE-EXT-/, [0, 2], without)],
  'Local policies that lack an endpoint': () => [changed(/^-A KUBE-SVL-/, [0], without)],
  'bypass rules of Local policies missing': () => [changed(/^-A KUBE-EXT-.* --src-type LOCAL /, [0, 3], without)],
  'a DROP in the chain of a Service': () => [
    dump => dump.replace(/^(-A KUBE-SVC-\S+) .*$/m, line => `${line.split(' ').slice(0, 2).join(' ')} -s 10.0.0.0/8 -j DROP\n${line}`),
  ],
  'a DROP before DNAT': () => [withRule('filter', `-A FORWARD -d ${addressOf(3, 0)}/32 -j DROP`)],
  'a DROP of an endpoint by its port': () => [withRule('filter', `-A FORWARD -d ${addressOf(3, 1)}/32 -p tcp -m tcp --dport 8080 -j DROP`)],
  'a jump of a third party to the chain of a Service': () => [
    withRule('nat', `-A OTHERS -d 10.96.0.0/12 -p tcp -j ${leadingChain()}`),
    withRule('nat', '-A PREROUTING -j OTHERS'),
  ],
  'a jump of a third party to the entries': () => [
    withRule('nat', '-A OTHERS -p tcp -j KUBE-SERVICES'),
    withRule('nat', '-A PREROUTING -j OTHERS'),
    changed(/ -j KUBE-SEP-/, [3, 14, 25, 36, 47, 58, 69], without),
  ],
  'the rule of a deleted Service at the address of another': () => [
    withRule('nat', `-A KUBE-SERVICES -d ${plainServices()[4]?.clusterIPs[0]}/32 -p tcp -j ${leadingChain()}`),
  ],
  'a broad rule to the chain of a Service': () => [withRule('nat', `-A KUBE-SERVICES -d 10.96.0.0/12 -p tcp -j ${leadingChain()}`)],
  'a mark for masquerading by address': () => [withRule('nat', `-A POSTROUTING -d ${addressOf(5, 2)}/32 -j MASQUERADE`)],
};

function expectLikeEach(given: Snapshot, ...settings: readonly ConfigOverrides[]): void {
  for (const overrides of settings) expect(changesOf(given, overrides)).toEqual(changesOf(edited(given, [eachAlone]), overrides));
}

describe.each(['synced', 'stopped'] as const)('grouped outcomes equal those of walks of each Service port: %s, with', state => {
  test.each(someOf(Object.entries(faults)))('%s', (_, edits) =>
    expectLikeEach(edited({synced, stopped}[state], edits()), {mode: 'nftables'}),
  );
});

test('grouped outcomes equal those of walks of each Service port if old addresses are those of others now', () => {
  expectLikeEach(reused, {mode: 'nftables'}, {mode: 'iptables', masqueradeAll: true}, {mode: 'ipvs'});
});

test('Service ports of a stopped kube-proxy are in groups, those of wrong rules alone', () => {
  const sizes = (groups: readonly PortGroup[]) => groups.filter(({pairs}) => pairs.some(({before, written}) => before !== written));
  const plain = groupsOf(stopped);
  const moved = sizes(plain).flatMap(({pairs}) => pairs);
  expect(moved.length).toBeGreaterThan(40);
  expect(sizes(plain).length).toBeLessThan(moved.length * 0.7);
  const alone = (groups: readonly PortGroup[]) => groups.filter(({shape}) => shape === null).length;
  expect(alone(groupsOf(edited(synced, [changed(/ -j KUBE-SEP-/, some, without)])))).toBe(some.length + alone(groupsOf(synced)));
});
