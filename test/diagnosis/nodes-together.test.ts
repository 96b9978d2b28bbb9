/** Nodes of one run share what is the same on each of them. What is found on a node must be what a run of that node alone finds. */
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {ApiObjects, NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {buildCluster} from '../bench/build-cluster.ts';
import {withReplacedEndpoints} from '../bench/replace-endpoints.ts';
import {writeApiObjects, writeBundle} from '../bench/synthetic-cluster.ts';
import {withFiles} from '../fixtures.ts';
import {someOf} from '../cases.ts';

let temp: string;
let healthy: Snapshot;
/** The kube-proxies of all nodes stopped before a part of the endpoints got other addresses. */
let stopped: Snapshot;

beforeAll(async () => {
  temp = mkdtempSync(join(tmpdir(), 'svc-trace-together-'));
  const cluster = buildCluster({services: 24, endpoints: 3, nodes: 4, seed: 7});
  writeBundle(join(temp, 'healthy'), cluster);
  healthy = await readBundle(join(temp, 'healthy'));
  writeBundle(join(temp, 'stopped'), cluster);
  writeApiObjects(join(temp, 'stopped'), withReplacedEndpoints(cluster, 0.4, 3));
  stopped = await readBundle(join(temp, 'stopped'));
});

afterAll(() => rmSync(temp, {recursive: true}));

function findings(snapshot: Snapshot): readonly Finding[] {
  return diagnose(snapshot, {toolVersion: '0'}).findings;
}

type Found = ReadonlyMap<string, readonly Finding[]>;
const foundTogether = new WeakMap<Snapshot, Found>();

/** By node, from one run of all. Those that no test changes run once. */
function together(snapshot: Snapshot): Found {
  const known = foundTogether.get(snapshot);
  if (known !== undefined) return known;
  const found = findings(snapshot);
  const byNode = new Map(snapshot.nodes.map(({name}) => [name, found.filter(({node}) => node === name)]));
  foundTogether.set(snapshot, byNode);
  return byNode;
}

const foundAlone = new WeakMap<ApiObjects, WeakMap<NodeDump, readonly Finding[]>>();

/** From a run of one node. Most tests change one of the four, so that the others run once. */
function alone(snapshot: Snapshot, node: NodeDump): readonly Finding[] {
  const known = foundAlone.get(snapshot.api) ?? new WeakMap<NodeDump, readonly Finding[]>();
  foundAlone.set(snapshot.api, known);
  const found = known.get(node) ?? findings({...snapshot, nodes: [node]}).filter(each => each.node === node.name);
  known.set(node, found);
  return found;
}

/** By node, from a run for each. */
function apart(snapshot: Snapshot): Found {
  return new Map(snapshot.nodes.map(node => [node.name, alone(snapshot, node)]));
}

/** The same, but for one file of the fourth node. */
function withFile(snapshot: Snapshot, file: string, change: (text: string) => string): Snapshot {
  const changed = (node: NodeDump): NodeDump => withFiles(node, {[file]: change(node.read(file)?.toString() ?? '')});
  return {...snapshot, nodes: snapshot.nodes.map((node, index) => (index === 3 ? changed(node) : node))};
}

function withApi(snapshot: Snapshot, api: Partial<ApiObjects>): Snapshot {
  return {...snapshot, api: {...snapshot.api, ...api}};
}

type Change = (snapshot: Snapshot) => Snapshot;
type Case = readonly [what: string, change: Change, shows?: 'in evidence' | 'nowhere'];

/** `shows` is where a change shows; if nowhere is given, in both. Comments are not compared, and where lines are shows only in evidence. */
const cases: readonly Case[] = [
  ['the port of an endpoint, in one digit', inDump(/(--to-destination \S+:\d+)0$/m, '$17')],
  ['the address of an endpoint, by one digit', inDump(/(-j DNAT --to-destination \d+\.\d+\.\d+\.)(?=\d:)/, '$12')],
  ['a share of an endpoint', inDump(/(-A KUBE-SVC-.*--probability 0\.)\d/, '$19')],
  ['a letter of a comment', inDump(/(-A KUBE-SEP-\S+ .*--comment "team)-/, '$1_'), 'nowhere'],
  ['the mark of an endpoint', inDump(/(-A KUBE-SEP-\S+) -s .*-j KUBE-MARK-MASQ\n/, '')],
  ['two rules in another order', inDump(/(-A KUBE-SVC-.* -j KUBE-SEP-\S+\n)(-A KUBE-SVC-.* -j KUBE-SEP-\S+\n)/, '$2$1')],
  ['a rule at the end of a chain', inDump(/((-A KUBE-SEP-\S+) .*\n)(?!\2)/, '$1$2 -j RETURN\n')],
  ['a declaration less, of a chain with rules', inDump(/:KUBE-SEP-\S+ .*\n/, ''), 'in evidence'],
  ['one more chain', inDump(/(:KUBE-SEP-)(\S+ .*\n)/, '$1AAAAAAAAAAAAAAAA - [0:0]\n$1$2'), 'in evidence'],
  ['a rule that is there twice', inDump(/(-A KUBE-SVC-.* -j KUBE-SEP-\S+\n)/, '$1$1')],
  ['a chain without its rules', inDump(/-A (KUBE-SVC-\S+) .*\n(-A \1 .*\n)*/, '')],
  ['a rule of a third party in the chain of a Service port', inDump(/(-A (KUBE-SVC-\S+) )/, '-A $2 -s 10.9.8.7/32 -j RETURN\n$1')],
  ['the cluster IP in KUBE-SERVICES', inDump(/-A KUBE-SERVICES -d \S+ .* cluster IP" .*\n/, '')],
  ['a rule that drops a cluster IP', inDump(/(\*filter\n(?::.*\n)+)/, '$1-A FORWARD -d 10.128.0.0/12 -j DROP\n')],
  ['the lines before the rules', inDump(/\*nat\n/, '# one more\n*nat\n'), 'in evidence'],
  ['lines between the rules of a chain', inDump(/(-A (KUBE-SVC-\S+) .*\n)/, '$1-A OUTPUT -d 192.0.2.1/32 -j ACCEPT\n'), 'in evidence'],
  ['the end of the dump', snapshot => withFile(snapshot, 'iptables-save', text => text.slice(0, text.indexOf('-A KUBE-SVC-')))],
  ['an empty dump', snapshot => withFile(snapshot, 'iptables-save', () => '')],
  ['masqueradeAll', inSettings(text => `${text}iptables: {masqueradeAll: true}\n`)],
  ['masqueradeBit', inSettings(text => `${text}iptables: {masqueradeBit: 15}\n`)],
  ['the cluster CIDR', inSettings(text => text.replace(/clusterCIDR: .*/, 'clusterCIDR: 10.0.0.0/8'))],
  ['no cluster CIDR', inSettings(text => text.replace(/clusterCIDR: .*\n/, ''))],
  ['nodePortAddresses', inSettings(text => `${text}nodePortAddresses: [192.0.2.0/24]\n`)],
  ['the node name', inSettings(text => text.replace(/hostnameOverride: .*/, 'hostnameOverride: another'))],
  ['the version', snapshot => withFile(snapshot, 'kube-proxy-version', () => 'v1.24.0')],
  [
    'an address of the node that is that of an endpoint',
    snapshot => withFile(snapshot, 'addresses.json', withEndpointOf(snapshot)),
    'nowhere',
  ],
];

function inDump(pattern: RegExp, replacement: string): Change {
  return snapshot =>
    withFile(snapshot, 'iptables-save', text => {
      expect(text).toMatch(pattern);
      return text.replace(pattern, replacement);
    });
}

function inSettings(change: (text: string) => string): Change {
  return snapshot => withFile(snapshot, 'kube-proxy-config.yaml', change);
}

function withEndpointOf({api}: Snapshot): (text: string) => string {
  const slice = api.endpointSlices?.find(({metadata}) => metadata.namespace?.startsWith('team-') && metadata.name.length > 0);
  const address = slice?.endpoints?.[0]?.addresses?.[0] ?? '';
  expect(address).toMatch(/^10\./);
  return text => text.replace(/172\.18\.\d+\.\d+/, address);
}

describe('if only the fourth node has another', () => {
  test.each(someOf(cases.map(each => [...each] as const)))('%s', (_, change, shows) => {
    for (const snapshot of [healthy, stopped]) {
      const given = change(snapshot);
      const found = together(given);
      expect(found).toEqual(apart(given));
      const fourth = snapshot.nodes[3]?.name ?? '';
      const changes = shows === undefined || (shows === 'in evidence' && snapshot === stopped);
      expect(JSON.stringify(found.get(fourth)) !== JSON.stringify(together(snapshot).get(fourth)), 'it shows').toBe(changes);
    }
  });
});

test.each(someOf(cases.map(each => [...each] as const)))('the fourth node is right if only the third has another: %s', (_, change) => {
  const [first, second, third, fourth] = healthy.nodes as readonly [NodeDump, NodeDump, NodeDump, NodeDump];
  const [, , , changed = third] = change({...healthy, nodes: [first, second, fourth, third]}).nodes;
  const given = {...healthy, nodes: [first, second, changed, fourth]};
  expect(together(given)).toEqual(apart(given));
});

test('a stopped kube-proxy is found on each of the nodes, with the lines of its own dump', () => {
  const found = together(stopped);
  const lines = new Set<number>();
  for (const {name, read} of stopped.nodes) {
    const dump = read('iptables-save')?.toString().split('\n') ?? [];
    const own = found.get(name)?.filter(({code, family}) => code === 'ST203' && family === 'IPv4') ?? [];
    expect(own.length).toBeGreaterThan(5);
    for (const {actual = []} of own) for (const {line, text} of actual) expect(dump[line - 1]).toBe(text);
    lines.add(own[0]?.actual?.[0]?.line ?? 0);
  }
  expect(lines.size, 'the dumps of the nodes have the same rules at different lines').toBeGreaterThan(1);
});

describe('of a stopped kube-proxy, if only the fourth node has', () => {
  const changed = (code: string, isWanted: (finding: Finding) => boolean = () => true): Finding => {
    const [, , third] = stopped.nodes;
    const found = findings(stopped).find(
      each => each.code === code && each.node === third?.name && each.family === 'IPv4' && isWanted(each),
    );
    if (found === undefined) throw new Error(`no ${code}`);
    return found;
  };

  test('the chain of an endpoint that no rule reaches', () => {
    const rules = changed('ST202').expected?.filter(({chain}) => chain.startsWith('KUBE-SEP-')) ?? [];
    expect(rules).not.toEqual([]);
    const written = rules.map(({text}) => `${text}\n`).join('');
    const given = withFile(stopped, 'iptables-save', text => text.replace(/(\*nat\n[^*]*)COMMIT/, `$1${written}COMMIT`));
    expect(together(given)).toEqual(apart(given));
    expect(together(given)).not.toEqual(together(stopped));
  });

  test('the rules of a chain in two places', () => {
    const rule = changed('ST203', ({actual: [first] = []}) => first?.text.includes(' --probability 0.5') ?? false).actual?.[0]?.text ?? '';
    const between = '-A OUTPUT -d 192.0.2.1/32 -j ACCEPT\n'.repeat(40);
    const given = withFile(stopped, 'iptables-save', text => text.replace(rule, `${between}${rule}`));
    expect(together(given)).toEqual(apart(given));
    expect(together(given)).not.toEqual(together(stopped));
  });

  test('another state of an unusable endpoint, of which two slices contradict each other', () => {
    const {endpoint = '', service} = changed('ST203');
    const states = [{ready: false}, {ready: false, serving: false, terminating: true}];
    const {endpointSlices} = stopped.api;
    const slice = endpointSlices?.find(({metadata}) => metadata.labels?.['kubernetes.io/service-name'] === service?.name);
    if (slice === undefined) throw new Error('no slice');
    const contradicting = states.map((conditions, index) => ({
      ...slice,
      metadata: {...slice.metadata, name: `other-${index}`},
      endpoints: [{addresses: [endpoint.split(':')[0] ?? ''], conditions, nodeName: stopped.nodes[2 + index]?.name ?? ''}],
    }));
    const given = withApi(stopped, {endpointSlices: [...(endpointSlices ?? []), ...contradicting]});
    // Before 1.36, the state on the node itself counts.
    const versions = {...given, nodes: given.nodes.map(node => withFiles(node, {'kube-proxy-version': 'v1.35.0'}))};
    expect(together(versions)).toEqual(apart(versions));
    const texts = [...together(versions).values()].map(
      all => all.find(each => each.code === 'ST203' && each.endpoint === endpoint)?.message,
    );
    expect(texts[2]).toContain('not ready');
    expect(texts[3]).toContain('terminating');
  });
});

test('each node has the endpoints of its own zone', () => {
  const {endpointSlices, nodes} = stopped.api;
  const zones = ['a', 'b'];
  const inZones = withApi(stopped, {
    nodes: (nodes ?? []).map((node, index) => ({
      ...node,
      metadata: {...node.metadata, labels: {...node.metadata.labels, 'topology.kubernetes.io/zone': zones[index % 2] ?? ''}},
    })),
    endpointSlices: (endpointSlices ?? []).map(slice => ({
      ...slice,
      endpoints: (slice.endpoints ?? []).map((endpoint, index) => ({...endpoint, hints: {forZones: [{name: zones[index % 2] ?? ''}]}})),
    })),
  });
  expect(together(inZones)).toEqual(apart(inZones));
  expect(together(inZones)).not.toEqual(together(stopped));
});

test('endpoints that are on one of the nodes are its own', () => {
  const {endpointSlices} = stopped.api;
  const [, , third] = stopped.nodes;
  const moved = withApi(stopped, {
    endpointSlices: (endpointSlices ?? []).map(slice => ({
      ...slice,
      endpoints: (slice.endpoints ?? []).map((endpoint, index) => (index === 0 ? {...endpoint, nodeName: third?.name ?? ''} : endpoint)),
    })),
  });
  expect(together(moved)).toEqual(apart(moved));
  expect(together(moved)).not.toEqual(together(stopped));
});
