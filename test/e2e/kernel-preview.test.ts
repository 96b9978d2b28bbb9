/** What `preview` foretells from the rules of one mode is what the kernel does with those of the other. */
import {beforeAll, describe, expect, test} from 'vitest';
import {packetOf} from '../../src/analyze/outcomes/probes.ts';
import {ClusterView} from '../../src/expect/cluster/cluster-view.ts';
import {parseAddress} from '../../src/model/address.ts';
import type {PreviewChange, PreviewEffect, PreviewSource} from '../../src/model/preview-result.ts';
import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {effectOnPacket, probeOutcome} from '../../src/preview/effect.ts';
import {nodeSetup, plannedConfig, actualSide, expectedSide, type WalkedSide, sideOutcome} from '../../src/preview/sides.ts';
import {preview} from '../preview-of.ts';
import type {ConfigOverrides} from '../../src/expect/resolve-proxy-config.ts';
import {someOf} from '../cases.ts';
import {nodeDump} from '../cluster.ts';
import {readFixture, snapshotOf, withFiles} from '../fixtures.ts';
import {describeWith} from '../require.ts';
import {type Scenario, scenario} from '../scenario.ts';
import {unusualServices} from '../unusual-services.ts';
import type {KernelComparison} from './kernel/compare.ts';
import {Experiment} from './kernel/experiment.ts';
import type {Destination, Question} from './kernel/questions.ts';
import {withPrintedRules} from './kernel/printed-rules.ts';
import {isMasqueraded} from './kernel/outcome.ts';

interface Case {
  readonly title: string;
  readonly change: ConfigOverrides;
  /** The program that loads the rules of iptables mode. */
  readonly backend?: 'legacy';
  readonly before: () => Promise<Snapshot>;
  /** The same workload, as the other mode wrote it. */
  readonly after: () => Promise<Snapshot>;
  /** Effects that must be among those that are seen, so that the comparison is not empty. */
  readonly sees: readonly string[];
}

const name = 'node-a';

const cases: readonly Case[] = [
  {
    title: '1.36 from iptables to nftables mode',
    change: {mode: 'nftables'},
    before: () => snapshotOf('healthy/1.36-iptables'),
    after: () => snapshotOf('nftables/1.36'),
    sees: ['lost', 'refused'],
  },
  {
    title: '1.36 from nftables to iptables mode',
    change: {mode: 'iptables'},
    before: () => snapshotOf('nftables/1.36'),
    after: () => snapshotOf('healthy/1.36-iptables'),
    sees: ['gained', 'unanswered'],
  },
  {
    title: '1.33 from iptables to nftables mode',
    change: {mode: 'nftables'},
    before: () => snapshotOf('healthy/1.33-iptables'),
    after: () => snapshotOf('nftables/1.33'),
    sees: ['lost', 'refused'],
  },
  {
    title: '1.36 from iptables mode to what rules prints for 1.37 in nftables mode',
    change: {mode: 'nftables'},
    before: () => snapshotOf('healthy/1.36-iptables'),
    after: async () => withPrintedRules(await snapshotOf('healthy/1.36-iptables'), name, {mode: 'nftables', version: 'v1.37.0'}),
    sees: ['lost', 'refused'],
  },
  {
    title: '1.33 from nftables mode to what rules prints for iptables mode',
    change: {mode: 'iptables'},
    before: () => snapshotOf('nftables/1.33'),
    after: async () => withPrintedRules(await snapshotOf('nftables/1.33'), name, {mode: 'iptables', nodePortAddresses: []}),
    sees: ['gained', 'unanswered'],
  },
  {
    title: 'Services of every shape, 1.36 from iptables to nftables mode',
    change: {mode: 'nftables'},
    before: async () => unusualNode('iptables', 'v1.36.2'),
    after: async () => unusualNode('nftables', 'v1.36.2'),
    sees: ['lost', 'refused'],
  },
  {
    title: 'Services of every shape, 1.31 from nftables to iptables mode',
    change: {mode: 'iptables'},
    before: async () => unusualNode('nftables', 'v1.31.0'),
    after: async () => unusualNode('iptables', 'v1.31.0'),
    sees: ['gained', 'unanswered'],
  },
  {
    title: '1.36 to nftables mode behind a firewall that drops what KUBE-FORWARD does not accept',
    change: {mode: 'nftables'},
    before: () => changed('healthy/1.36-iptables', given => given.rules(name).policy('filter', 'FORWARD', 'DROP')),
    after: () =>
      changed('nftables/1.36', given => {
        given.file(name, 'nft.json', readFixture('captures/nftables/1.36/nodes/node-a/nft.txt').toString('utf8'));
        given.file(name, 'iptables-save', '*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n');
      }),
    sees: ['lost'],
  },
  {
    title: 'Services of every shape, 1.29 in iptables mode (legacy backend) to 1.34 in nftables mode',
    change: {mode: 'nftables', version: 'v1.34.2'},
    backend: 'legacy',
    before: async () => unusualNode('iptables', 'v1.29.0'),
    after: async () => unusualNode('nftables', 'v1.34.2'),
    sees: ['lost', 'refused'],
  },
  {
    title: 'from 1.23 to 1.36 in iptables mode',
    change: {version: 'v1.36.2'},
    before: () => snapshotOf('healthy/1.23-iptables'),
    after: async () => withPrintedRules(await snapshotOf('healthy/1.23-iptables'), name, {version: 'v1.36.2'}),
    sees: [],
  },
  {
    title: 'masqueradeAll of iptables mode, which does not count in nftables mode',
    change: {mode: 'nftables'},
    before: () => changed('settings/masquerade-all', withIPv6Pods),
    after: async () =>
      withPrintedRules(await changed('settings/masquerade-all', withIPv6Pods), name, {mode: 'nftables', nftMasqueradeAll: false}),
    sees: ['source-address'],
  },
  {
    title: 'node ports on all addresses of nftables mode to iptables mode',
    change: {mode: 'iptables'},
    before: () => snapshotOf('nftables/nodeport-all'),
    after: async () => withPrintedRules(await snapshotOf('nftables/nodeport-all'), name, {mode: 'iptables'}),
    sees: [],
  },
  {
    title: 'Services of every shape, from 1.25 to 1.36 in iptables mode',
    change: {version: 'v1.36.2'},
    before: async () => unusualNode('iptables', 'v1.25.0'),
    after: async () => unusualNode('iptables', 'v1.36.2'),
    sees: ['gained', 'lost'],
  },
];

/** What `rules` prints for Services that no capture has, and the settings that it was printed for. */
function unusualNode(mode: 'iptables' | 'nftables', version: string): Snapshot {
  const clusterCIDRs = ['10.244.0.0/16', 'fd00:10:244::/48'];
  const snapshot = {origin: 'unusual-services.ts', api: unusualServices(), nodes: [nodeDump(name)], problems: []};
  const printed = withPrintedRules(snapshot, name, {mode, version, clusterCIDRs});
  const settings = {
    'kube-proxy-version': version,
    'kube-proxy-config.yaml': `kind: KubeProxyConfiguration\nmode: ${mode}\nclusterCIDR: ${clusterCIDRs.join(',')}\n`,
  };
  return {...printed, nodes: printed.nodes.map(node => withFiles(node, settings))};
}

/** The captured Node names its IPv4 pods only. */
function withIPv6Pods(given: Scenario): void {
  given.nodeObject(name, node => ({...node, spec: {...node.spec, podCIDRs: ['10.244.11.0/24', 'fd00:10:244:11::/64']}}));
}

async function changed(capture: string, change: (given: Scenario) => void): Promise<Snapshot> {
  const given = await scenario(capture);
  change(given);
  return given.snapshot();
}

const tools = ['root', 'netns', 'nsenter', 'ip', 'ipset', 'conntrack', 'nft', 'iptables-nft-restore', 'ip6tables-nft-restore'] as const;

describeWith(tools, 'preview predicts the behavior of the kernel', () => {
  describe.each(someOf(cases))('$title', ({change, backend, before, after, sees}) => {
    let snapshot: Snapshot;
    let node: NodeDump;
    let questions: readonly Question[];
    let kernel: ReadonlyMap<Question, {readonly before: ClientView; readonly after: ClientView}>;

    beforeAll(async () => {
      snapshot = await before();
      const [first, addresses] = await sent(snapshot, backend);
      const [second] = await sent(await after(), backend);
      const [captured] = snapshot.nodes.filter(one => one.name === name);
      if (captured === undefined) throw new Error(`there is no ${name}`);
      node = withFiles(captured, {'addresses.json': addresses});
      const later = new Map(second.map(comparison => [comparison.question.title, comparison]));
      kernel = new Map(
        first.flatMap(comparison => {
          const other = later.get(comparison.question.title);
          return other === undefined ? [] : [[comparison.question, {before: clientView(comparison), after: clientView(other)}] as const];
        }),
      );
      questions = [...kernel.keys()];
    });

    test('packet by packet: the changes, their effect, and what stays the same', () => {
      const view = new ClusterView(snapshot.api);
      const setup = nodeSetup({node, api: snapshot.api, view, overrides: {}});
      const config = plannedConfig(setup, {overrides: change, configFile: null});
      const sides = (['IPv4', 'IPv6'] as const).map(family => ({
        family,
        was: actualSide(setup, view, family),
        is: expectedSide({setup, view, config, family, besideOthers: true}),
      }));
      const wrong = questions.flatMap(question => {
        const {query, from} = question;
        const side = sides.find(({family}) => family === query.family);
        const source = {kind: from === 'node' ? 'node' : 'other', interface: query.inInterface};
        const packet = packetOf(query, {...query, from: source});
        if (packet === null || side === undefined) throw new Error(question.title);
        const isLoopback = query.destination === '::1' || query.destination.startsWith('127.');
        const probe = {
          ...{packet, kind: isLoopback && from === 'node' ? ('localhost' as const) : ('entry' as const)},
          entry: {kind: 'nodePort' as const, address: null, port: query.port},
          source: {kind: 'node' as const, address: query.source, interface: query.inInterface},
        };
        const outcomeOn = (walked: WalkedSide) => probeOutcome(walked, probe, {path: sideOutcome(walked, packet), item: null});
        const foretold = effectOnPacket(outcomeOn(side.was), outcomeOn(side.is)) ?? 'same';
        const views = kernel.get(question);
        const seen = views === undefined ? 'nothing' : (viewEffect(views.before, views.after) ?? 'same');
        return foretold === seen ? [] : [`${question.title}: foretold ${foretold}, seen ${seen}`];
      });
      expect(wrong).toEqual([]);
      expect(questions.length).toBeGreaterThan(700);
      const effects = new Set([...kernel.values()].flatMap(({before: was, after: is}) => viewEffect(was, is) ?? []));
      expect([...effects]).toEqual(expect.arrayContaining([...sees]));
    });

    test('in its list: with every Service, entry and kind of client, and no other', () => {
      const plan = {overrides: change, configFile: null};
      const rest = {apiAfter: snapshot.api, selects: () => true, scope: [], services: 0, expectedOnly: false, notes: []};
      const {changes} = preview({snapshot, nodes: [node], plan, ...rest});
      const asked = new Map(questions.filter(isPreviewed).map(question => [keyOf(question), question]));
      const seen = new Set(
        [...kernel].flatMap(([question, views]) => (viewEffect(views.before, views.after) === null ? [] : keyOf(question))),
      );
      // The addresses of load balancers are not on this node.
      const sentHere = changes.filter(({cause}) => cause.id !== 'own-address');
      const listed = new Set(sentHere.map(keyOfChange).filter(key => asked.has(key)));
      expect([...listed].toSorted()).toEqual([...seen].filter(key => asked.has(key)).toSorted());
      expect(listed.size).toBeGreaterThan(0);
    });
  });
});

/** Returning clients have another test, and no client sends packets for a loopback address over a network. */
function isComparable({sticky, from, query: {destination}}: Question): boolean {
  return !sticky && !(from === 'outside' && destination === '127.0.0.1');
}

/** Pods of other nodes send to cluster IPs through the rules of their own node. */
function isPreviewed({service, from, sources, query: {destination, source}}: Question): boolean {
  return service !== '' && !(kindOf(from, sources.length === 1, source) === 'remotePod' && /^(?:10\.96\.|fd00:96:)/.test(destination));
}

/** Sends packets of every kind, and gives the addresses that the node had. */
async function sent(snapshot: Snapshot, backend: 'nft' | 'legacy' = 'nft'): Promise<readonly [readonly KernelComparison[], string]> {
  const isNft = snapshot.nodes.some(
    node => node.name === name && node.files.includes('nft.json') && !node.files.includes('ip6tables-save'),
  );
  await using experiment = await Experiment.open({snapshot, node: name, backend: isNft ? 'nftables' : backend, podInterface: 'cni0'});
  const questions = [...experiment.questions, ...experiment.questionsAbout(inServiceRange)];
  return [await experiment.try(questions.filter(isComparable), {alone: true}), experiment.addresses];
}

/** Ports that no Service has at a cluster IP, and addresses that no Service has. */
const inServiceRange: readonly Destination[] = ['10.96.11.1', 'fd00:96::11', '10.96.200.200', 'fd00:96::99'].map(address => ({
  address,
  port: 8,
}));

/** `shop/web TCP [10.96.1.1]:80 pod`: the Service, the entry and the kind of client. */
function keyOf({service, from, sources, query: {protocol, destination, port, source}}: Question): string {
  return `${service} ${protocol} [${destination}]:${port} ${kindOf(from, sources.length === 1, source)}`;
}

function kindOf(from: Question['from'], isOne: boolean, source: string): PreviewSource {
  if (from === 'node') return 'node';
  if (from === 'pods') return isOne ? 'endpoint' : 'pod';
  return /^(?:10\.244\.|fd00:10:244:)/.test(source) ? 'remotePod' : 'external';
}

function keyOfChange({service, packet: {protocol, destination, port}, source}: PreviewChange): string {
  const address = parseAddress(destination)?.text ?? destination;
  return `${service.namespace}/${service.name} ${protocol.toUpperCase()} [${address}]:${port} ${source.kind}`;
}

/** What the senders of one kind of packet saw of the kernel: the endpoints that were reached, and how it went where none was. */
interface ClientView {
  /** Whether each endpoint saw the source masqueraded. */
  readonly served: ReadonlyMap<string, boolean | 'in part'>;
  readonly isRefused: boolean;
  /** Some packets reached no endpoint. */
  readonly isUnserved: boolean;
}

/** The node answers at each of its ports so that no refusal is its own; without the lab it would refuse. */
function clientView({question, sent}: KernelComparison): ClientView {
  const outcomes = Map.groupBy(sent, ({pathOutcome}) => pathOutcome as string);
  const served = [...outcomes].filter(([text]) => text.startsWith('accept ') && text !== 'accept unchanged');
  const {destination} = question.query;
  const isOwn = /^(?:127\.|172\.18\.0\.11$|10\.244\.11\.1$|fd00:172:18::(?:11|b)$|fd00:10:244:(?:11|b)::1$|::1$)/.test(destination);
  return {
    served: new Map(served.map(([text, packets]) => [text, isMasqueraded(packets)])),
    isUnserved: sent.length > served.reduce((sum, [, packets]) => sum + packets.length, 0),
    isRefused: outcomes.has('reject') || (isOwn && outcomes.has('accept unchanged')),
  };
}

/** How what they see changes; null when it does not. */
function viewEffect(before: ClientView, after: ClientView): PreviewEffect | null {
  const [was, is] = [before.served, after.served];
  if (was.size === 0 && is.size === 0) return before.isRefused === after.isRefused ? null : after.isRefused ? 'refused' : 'unanswered';
  if (is.size === 0 || (after.isUnserved && !before.isUnserved)) return 'lost';
  if (was.size === 0 || (before.isUnserved && !after.isUnserved)) return 'gained';
  if (was.size !== is.size || [...was.keys()].some(key => !is.has(key))) return 'shares';
  return [...was].some(([key, masquerade]) => is.get(key) !== masquerade) ? 'source-address' : null;
}
