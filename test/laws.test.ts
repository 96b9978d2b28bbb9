/** The three laws of docs/architecture.md, on every capture. */
import {describe, expect, test} from 'vitest';
import {compareRulesets} from '../src/compare/compare-rulesets.ts';
import {ClusterView} from '../src/expect/cluster/cluster-view.ts';
import {expectRuleset} from '../src/expect/iptables/expect-ruleset.ts';
import type {ExpectedRuleset} from '../src/expect/iptables/expected-ruleset.ts';
import {nodeFacts} from '../src/expect/read-node-facts.ts';
import {resolveProxyConfig} from '../src/expect/resolve-proxy-config.ts';
import {addressInside, families, type Family, parseAddress, parseCidr} from '../src/model/address.ts';
import type {NodeFacts} from '../src/model/node/node-facts.ts';
import type {ProxyConfig} from '../src/model/proxy-config.ts';
import type {ChainSource, Ruleset} from '../src/model/ruleset.ts';
import type {ServicePort} from '../src/model/service-port.ts';
import type {NodeDump, Snapshot} from '../src/model/snapshot.ts';
import {formatRule} from './rendered-dump.ts';
import {parseDumps} from '../src/parse/iptables/iptables-save.ts';
import type {Environment, Packet} from '../src/trace/walked-packet.ts';
import {walkPacket} from './trace/walks.ts';
import {expectationFrom, expectationOf} from './expectation.ts';
import {captureNames, snapshotOf} from './fixtures.ts';
import {someOf} from './cases.ts';

const dumpFiles = ['iptables-save', 'ip6tables-save', 'iptables-nft-save', 'iptables-legacy-save'];
const fileOf = {IPv4: 'iptables-save', IPv6: 'ip6tables-save'} as const;

describe('a dump is printed back line by line', () => {
  test.each(someOf(captureNames('healthy', 'settings', 'eras', 'faults')))('%s', async name => {
    const dumps = dumpsOf(await snapshotOf(name));
    expect(dumps.length).toBeGreaterThan(0);
    for (const {node, file, dump} of dumps) {
      const [ruleset, ...more] = parseDumps(dump);
      expect(more, `${node} ${file}`).toEqual([]);
      expect(ruleset?.strays, `${node} ${file}`).toEqual([]);
      expect(printed(ruleset), `${node} ${file}`).toBe(plain(dump));
    }
  });
});

describe('a ruleset compared with itself has no difference', () => {
  test.each(someOf(captureNames('healthy', 'settings', 'eras', 'faults')))('%s', async name => {
    const dumps = dumpsOf(await snapshotOf(name));
    expect(dumps.length).toBeGreaterThan(0);
    for (const {node, file, dump} of dumps) {
      const [ruleset] = parseDumps(dump);
      if (ruleset === undefined) throw new Error(`no ruleset in ${node} ${file}`);
      expect(compareRulesets(expectationFrom(ruleset), ruleset).differences, `${node} ${file}`).toEqual([]);
    }
  });
});

describe('a healthy node has exactly the expected rules', () => {
  test.each(someOf(captureNames('healthy', 'settings', 'eras')))('%s', async name => {
    const snapshot = await snapshotOf(name);
    const nodes = nodesOf(snapshot);
    expect(nodes.length).toBeGreaterThan(0);
    for (const {node, family, expected, ruleset, config} of nodes) {
      const {differences} = compareRulesets(expectationOf(expected), ruleset);
      // Up to 1.26 the kubelet, and not kube-proxy, leads to its own chain.
      const own = config.version.value.minor <= 26 ? differences.filter(({rule}) => !isKubeletJump(rule.text)) : differences;
      expect(
        own.map(({kind, rule}) => `${kind} ${rule.text}`),
        `${node} ${family}`,
      ).toEqual([]);
    }
  });
});

describe('a packet ends where the expected rules send it', () => {
  test.each(someOf(captureNames('healthy', 'settings', 'eras')))('%s', async name => {
    const snapshot = await snapshotOf(name);
    let walks = 0;
    for (const {node, family, expected, ruleset, facts, config} of nodesOf(snapshot)) {
      const environment = environmentOf(facts);
      const actual = droppingMarked(ruleset, expected);
      for (const {port, endpoints} of expected.ports) {
        for (const packet of packetsFor(port, {facts, config, few: endpoints.cluster.length > 100})) {
          const what = `${node} ${family} ${port.servicePortName} ${packet.source.text} > ${packet.destination.text}:${packet.port}`;
          expect(ends(actual, packet, environment), what).toEqual(ends(expected, packet, environment));
          walks++;
        }
      }
    }
    expect(walks).toBeGreaterThan(100);
  });
});

function dumpsOf({nodes}: Snapshot): readonly {node: string; file: string; dump: Buffer}[] {
  return nodes.flatMap(node =>
    dumpFiles.flatMap(file => {
      const dump = node.read(file);
      return dump === null ? [] : [{node: node.name, file, dump}];
    }),
  );
}

/** All rules of a ruleset in the order of its chains, which is that of the dump. */
function printed(ruleset: Ruleset | undefined): string {
  const chains = [...(ruleset?.tables.values() ?? [])].flatMap(table => [...table.chains.values()]);
  return chains.flatMap(chain => chain.rules().map(formatRule)).join('\n');
}

/** The rules of a dump with single blanks. */
function plain(dump: Buffer): string {
  const lines = dump.toString('utf8').split('\n');
  return lines
    .filter(line => line.startsWith('-A '))
    .map(line => line.replace(/ +/g, ' '))
    .join('\n');
}

function isKubeletJump(text: string): boolean {
  return text === '-A INPUT -j KUBE-FIREWALL' || text === '-A OUTPUT -j KUBE-FIREWALL';
}

interface NodeRules {
  readonly node: string;
  readonly family: Family;
  readonly expected: ExpectedRuleset;
  readonly ruleset: Ruleset;
  readonly facts: NodeFacts;
  readonly config: ProxyConfig;
}

function nodesOf({api, nodes}: Snapshot): readonly NodeRules[] {
  const view = new ClusterView(api);
  return nodes.flatMap(node => families.map(family => rulesOf(node, family, {api, view})));
}

function rulesOf(node: NodeDump, family: Family, {api, view}: {readonly api: Snapshot['api']; readonly view: ClusterView}): NodeRules {
  const {config, problems} = resolveProxyConfig(node, api, {});
  expect(problems).toEqual([]);
  const facts = nodeFacts(node, api);
  const [ruleset] = parseDumps(node.read(fileOf[family]) ?? '', family);
  if (ruleset === undefined) throw new Error(`no ruleset of ${node.name}`);
  return {node: node.name, family, ruleset, facts, config, expected: expectRuleset({view, config, facts, family, ruleset})};
}

/**
 * What KUBE-MARK-DROP of kube-proxy up to 1.24 marks, the kubelet drops on the way into the node and out of it. The expected
 * rules count it as dropped on every path, so here the actual rules do too.
 */
function droppingMarked(ruleset: Ruleset, expected: ExpectedRuleset): ChainSource {
  const isMark = (table: string, name: string): boolean => table === 'nat' && name === 'KUBE-MARK-DROP';
  return {...ruleset, chain: (table, name) => (isMark(table, name) ? expected : ruleset).chain(table, name)};
}

function environmentOf(facts: NodeFacts): Environment {
  const own = new Set(facts.addresses);
  return {
    isLocal: address => own.has(address.text) || address.text.startsWith('127.'),
    canBeInterface: () => null,
    inSet: () => null,
    knownTo: new Set(),
    redirectAddress: () => null,
  };
}

/** From a pod of the node, the node and two clients outside, to every entry of a Service port. */
function packetsFor(
  port: ServicePort,
  {facts, config, few}: {readonly facts: NodeFacts; readonly config: ProxyConfig; readonly few: boolean},
): readonly Packet[] {
  const six = port.family === 'IPv6';
  const node = facts.addresses.find(address => address.includes(':') === six && address !== '127.0.0.1' && address !== '::1') ?? '';
  const pods = parseCidr((six ? 'fd00:10:244::/56' : facts.podCIDRs[0]) ?? '');
  const pod = (pods === null ? null : addressInside(pods, new Set())) ?? '';
  const podInterface = config.interfaceNamePrefix.value === '' ? config.bridgeInterface.value : `${config.interfaceNamePrefix.value}7`;
  const range = parseCidr(port.sourceRanges[0] ?? '');
  const admitted = (range === null ? null : addressInside(range, new Set())) ?? (six ? '2001:db8::1' : '203.0.113.250');
  const sources = [
    {from: pod, origin: 'arriving', inInterface: podInterface === '' ? 'veth7' : podInterface},
    {from: node, origin: 'node', inInterface: null},
    {from: admitted, origin: 'arriving', inInterface: 'eth0'},
    {from: six ? '2001:db8:9::1' : '192.0.2.250', origin: 'arriving', inInterface: 'eth0'},
  ] as const;
  const entries = [
    {to: port.clusterIP, number: port.port},
    ...[...port.externalIPs, ...port.loadBalancerVIPs].map(to => ({to, number: port.port})),
    ...(port.nodePort === 0 ? [] : [node, six ? '::1' : '127.0.0.1'].map(to => ({to, number: port.nodePort}))),
  ];
  return sources.slice(0, few ? 1 : sources.length).flatMap(({from, origin, inInterface}) =>
    entries.flatMap(({to, number}) => {
      const [source, destination] = [parseAddress(from), parseAddress(to)];
      if (source === null || destination === null) return [];
      const unmarked = {mark: 0, connectionMark: 0, rewritten: false, masquerade: false, untracked: false, outInterface: null};
      return [
        {family: port.family, protocol: port.protocol.toLowerCase(), source, destination, port: number, origin, inInterface, ...unmarked},
      ];
    }),
  );
}

/** The outcome of a packet; the kernel's random match works in steps of 2^-31. */
function ends(rules: ChainSource, packet: Packet, environment: Environment): readonly string[] {
  const outcomes = walkPacket(rules, packet, environment);
  return outcomes
    .map(({verdict, destination, masquerade, probability}) => `${verdict} ${destination} ${masquerade} ${probability.toFixed(6)}`)
    .sort();
}
