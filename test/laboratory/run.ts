import {mkdirSync, rmSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import process from 'node:process';
import {parseArgs} from 'node:util';
import {writeBundle} from '../../src/collect/bundle/write-bundle.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {Examination, possibleIn} from './examine.ts';
import {changesText, type Judgement} from './judge.ts';
import {type Cluster, clusterName, clusters, type Flow, flows, type Mode, type Seen} from './laboratory.ts';
import {scenarios} from './scenarios.ts';
import type {Scenario, Step} from './steps.ts';

type Choices = readonly [string, ...string[]];

interface Place {
  readonly table: string;
  readonly chain: string;
  readonly targets: Choices;
  /** The interfaces that its rules may name: `in` and `out`. */
  readonly way?: readonly string[];
}

// Each list names nobody, somebody and everybody, so that rules are narrow as often as wide.
const sources: Choices = [
  '10.244.11.4',
  ...['10.244.11.5', '10.244.12.4', '172.18.0.11', '172.18.0.12', '203.0.113.9', '10.244.11.77'],
  ...['10.244.11.4/31', '10.244.11.0/24', '10.244.12.0/24', '10.244.0.0/16', '172.18.0.0/16', '203.0.113.0/24', '10.0.0.0/8'],
];
const destinations: Choices = [...sources, '10.96.1.1', '10.96.1.2', '10.96.1.4/31', '10.96.0.0/12', '198.51.100.10'];
const ports: Choices = ['80', '8080', '30080', '30081', '443', '8000-8999', '30000-32767', '1-1023'];
// Only such as the laboratory sends from: of others it knows nothing.
const sourcePorts: Choices = ['8080', '1024-65535', '32768-65535'];
const states: Choices = ['NEW', 'ESTABLISHED', 'INVALID', 'RELATED'];
const interfaces: Choices = ['eth0', 'cali4', 'cali5', 'lo', 'cni0'];
const priorities: Choices = ['-350', '-300', '-250', '-150', '-120', '-50', '0', '10', '110', '200'];

/** The base chains of iptables, and what may be done there. */
const places: readonly [Place, ...Place[]] = [
  {table: 'raw', chain: 'PREROUTING', way: ['in'], targets: ['DROP', 'DROP', 'CT --notrack', 'ACCEPT']},
  {table: 'raw', chain: 'OUTPUT', way: ['out'], targets: ['DROP', 'DROP', 'CT --notrack', 'ACCEPT']},
  {
    table: 'mangle',
    chain: 'PREROUTING',
    way: ['in'],
    targets: ['DROP', 'MARK --set-xmark 0x4000/0x4000', 'MARK --set-xmark 0x8000/0x8000'],
  },
  {
    table: 'mangle',
    chain: 'FORWARD',
    way: ['in', 'out'],
    targets: ['DROP', 'MARK --set-xmark 0x4000/0x4000', 'MARK --set-xmark 0x0/0x4000'],
  },
  {table: 'mangle', chain: 'OUTPUT', way: ['out'], targets: ['DROP', 'MARK --set-xmark 0x4000/0x4000']},
  {table: 'mangle', chain: 'POSTROUTING', way: ['out'], targets: ['DROP', 'MARK --set-xmark 0x4000/0x4000', 'MARK --set-xmark 0x0/0x4000']},
  {table: 'nat', chain: 'PREROUTING', way: ['in'], targets: ['ACCEPT', 'MARK --set-xmark 0x4000/0x4000', 'dnat']},
  {table: 'nat', chain: 'OUTPUT', way: ['out'], targets: ['ACCEPT', 'MARK --set-xmark 0x4000/0x4000', 'dnat']},
  {table: 'nat', chain: 'POSTROUTING', way: ['out'], targets: ['ACCEPT', 'MASQUERADE', 'SNAT --to-source 172.18.0.11']},
  {table: 'filter', chain: 'INPUT', way: ['in'], targets: ['DROP', 'ACCEPT', 'REJECT']},
  {table: 'filter', chain: 'FORWARD', way: ['in', 'out'], targets: ['DROP', 'DROP', 'ACCEPT', 'REJECT']},
  {table: 'filter', chain: 'OUTPUT', way: ['out'], targets: ['DROP', 'ACCEPT', 'REJECT']},
];

/** Chains of kube-proxy: in iptables, and in its table of nftables. */
const ownChains: readonly [Place, ...Place[]] = [
  {table: 'nat', chain: 'KUBE-SERVICES', targets: ['RETURN', 'ACCEPT', 'MARK --set-xmark 0x4000/0x4000']},
  {table: 'nat', chain: 'KUBE-NODEPORTS', targets: ['RETURN', 'ACCEPT']},
  {table: 'nat', chain: 'KUBE-POSTROUTING', targets: ['RETURN', 'ACCEPT']},
  {table: 'nat', chain: 'KUBE-MARK-MASQ', targets: ['RETURN', 'ACCEPT']},
  {table: 'filter', chain: 'KUBE-FORWARD', targets: ['RETURN', 'DROP', 'ACCEPT']},
];
const ownNftChains: Choices = ['services', 'nat-prerouting', 'nat-postrouting', 'masquerading', 'filter-forward', 'cluster-ips-check'];

/**
 * A rule of random width in a random place of a mode. Equal seeds give equal rules. It is one rule, so that what changes is its doing, and
 * "no traffic is affected" can be held against it.
 */
function randomScenario(random: Random, mode: Mode, index: number): Scenario {
  const isNative = random.chance(mode === 'nftables' ? 0.6 : 0.3);
  const load = [isNative ? nativeRule(random, mode) : iptablesRule(random, mode)];
  // Whom such a rule was meant for nobody knows: that it is named is enough.
  return {name: `random-${index}`, load, modes: [mode], isPurpose: true};
}

function some(random: Random, probability: number, text: () => string): readonly string[] {
  return random.chance(probability) ? [text()] : [];
}

function iptablesRule(random: Random, mode: Mode): Step {
  const isOwn = mode !== 'nftables' && random.chance(0.2);
  const {table, chain, targets, way = []} = random.pick(isOwn ? ownChains : places);
  const target = random.pick(targets);
  const not = () => (random.chance(0.1) ? '! ' : '');
  const dashed = (list: Choices) => random.pick(list).replace('-', ':');
  const conditions = [
    ...some(random, 0.7, () => `${not()}-s ${random.pick(sources)}`),
    ...some(random, 0.4, () => `${not()}-d ${random.pick(destinations)}`),
    ...way.flatMap(name => some(random, 0.25, () => `${not()}-${name[0]} ${random.pick(interfaces)}`)),
    ...some(
      random,
      0.3,
      () => `-p tcp -m tcp ${isOwn || random.chance(0.8) ? `--dport ${dashed(ports)}` : `--sport ${dashed(sourcePorts)}`}`,
    ),
    ...some(random, table === 'raw' ? 0 : 0.25, () => `-m conntrack --ctstate ${random.pick(states)}`),
  ];
  const protocol = conditions.some(text => text.startsWith('-p')) ? [] : ['-p tcp'];
  const action = target === 'dnat' ? [...protocol, '-j DNAT --to-destination 10.244.11.4:8080'] : [`-j ${target}`];
  const rule = [random.chance(0.6) ? '-I' : '-A', chain, ...conditions, ...action].join(' ');
  const step: Step = {tool: 'iptables', text: `*${table}\n${rule}\nCOMMIT\n`};
  return !isOwn && random.chance(0.25) ? {...step, backend: 'other'} : step;
}

function nativeRule(random: Random, mode: Mode): Step {
  const conditions = (way: readonly string[]) => [
    ...some(random, 0.7, () => `ip saddr ${random.pick(sources)}`),
    ...some(random, 0.4, () => `ip daddr ${random.pick(destinations)}`),
    ...way.flatMap(name => some(random, 0.25, () => `${name} ${random.chance(0.1) ? '!= ' : ''}"${random.pick(interfaces)}"`)),
    ...some(random, 0.3, () => (random.chance(0.8) ? `tcp dport ${random.pick(ports)}` : `tcp sport ${random.pick(sourcePorts)}`)),
    ...some(random, 0.2, () => `ct state ${random.pick(states).toLowerCase()}`),
  ];
  if (mode === 'nftables' && random.chance(0.3)) {
    const rule = [...conditions([]), random.pick(['return', 'accept', 'meta mark set mark or 0x4000'])].join(' ');
    return {tool: 'nft', text: `${random.pick(['insert', 'add'])} rule ip kube-proxy ${random.pick(ownNftChains)} ${rule}\n`};
  }
  const hook = random.pick(['prerouting', 'input', 'forward', 'output', 'postrouting']);
  const way = {prerouting: ['iifname'], input: ['iifname'], forward: ['iifname', 'oifname']}[hook] ?? ['oifname'];
  const rule = [...conditions(way), random.pick(['drop', 'drop', 'accept', 'meta mark set mark or 0x4000', 'notrack'])].join(' ');
  const chain = `type filter hook ${hook} priority ${random.pick(priorities)}; ${random.chance(0.1) ? 'policy drop;' : ''}`;
  // A table may be there already: `nft` adds to it, so each rule gets a name of its own.
  const name = `t${random.suffix()}`;
  return {tool: 'nft', text: `table ${random.pick(['ip', 'inet'])} ${name} {\n chain c {\n ${chain}\n ${rule}\n }\n}\n`};
}

// `node test/laboratory/run.ts`: sends packets through the kernel with the rules of each scenario, and says where the program is wrong.
// With `--random 100 --seed 7` the rules are random ones, so many for each mode.
const {values} = parseArgs({
  options: {
    only: {type: 'string', multiple: true},
    mode: {type: 'string', multiple: true},
    keep: {type: 'string'},
    random: {type: 'string'},
    seed: {type: 'string', default: '1'},
  },
});

const {only, mode, keep, random, seed} = values;
const isChosen = ({name}: Scenario) => only === undefined || only.some(text => name.includes(text));
const counts = {right: 0, wrong: 0, packets: 0};
await Promise.all(
  clusters
    .filter(cluster => mode === undefined || mode.includes(clusterName(cluster)))
    .map(async cluster => {
      const name = clusterName(cluster);
      await using examination = await Examination.open(cluster);
      for (const scenario of possibleIn(cluster, scenariosOf(cluster)).filter(isChosen)) {
        const {judgement, snapshot, seen} = await examination.examine(scenario);
        print(name, scenario, judgement);
        if (keep !== undefined)
          await write(join(keep, `${name}-${scenario.name}`), snapshot, {cluster, seen, before: examination.healthy.seen, judgement});
      }
    }),
);
process.stdout.write(`check: ${counts.right} right, ${counts.wrong} wrong; packet: wrong in ${counts.packets}\n`);

function scenariosOf({mode: name}: Cluster): readonly Scenario[] {
  if (random === undefined) return scenarios;
  const source = seededRandom(Number(seed));
  return Array.from({length: Number(random)}, (_, index) => randomScenario(source, name, index));
}

function print(name: string, scenario: Scenario, {changes, findings, check, packet}: Judgement): void {
  counts[check.length === 0 ? 'right' : 'wrong'] += 1;
  counts.packets += packet.length === 0 ? 0 : 1;
  const said = [...new Set(findings.map(({severity, code}) => `${severity} ${code}`))].join(', ');
  const verdict = `${check.length === 0 ? 'right' : 'WRONG'} ${packet.length === 0 ? '     ' : `${packet.length} packets`.padEnd(10)}`;
  const cells = [name.padEnd(13), scenario.name.padEnd(30), (changesText(changes) || 'nothing changed').padEnd(50), said || 'silent'];
  const lines = [
    `${verdict.padEnd(17)} ${cells.join(' | ')}`,
    ...check.map(line => `        ${line}`),
    ...packet.slice(0, 1).map(line => `        ${line}`),
    ...(random === undefined || check.length + packet.length === 0 ? [] : scenario.load.map(loaded)),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

function loaded({backend = 'own', text}: Step): string {
  return `        (${backend}) ${text.trim().replaceAll(/\s*\n\s*/g, ' ')}`;
}

interface Truth {
  readonly cluster: Cluster;
  readonly before: ReadonlyMap<Flow, Seen>;
  readonly seen: ReadonlyMap<Flow, Seen>;
  readonly judgement: Judgement;
}

async function write(path: string, snapshot: Snapshot, {cluster, before, seen, judgement}: Truth): Promise<void> {
  rmSync(path, {recursive: true, force: true});
  mkdirSync(dirname(path), {recursive: true});
  const record = {tool: {name: 'kubectl-svc-trace', version: '0.0.0'}, takenAt: null, origin: null, redacted: false};
  await writeBundle(path, {record, api: snapshot.api, nodes: snapshot.nodes, problems: []});
  const changed = new Map(judgement.changes.map(({flow, change}) => [flow, change]));
  const sent = flows[cluster.family].map(flow => ({
    ...flow,
    change: changed.get(flow) ?? null,
    before: before.get(flow),
    after: seen.get(flow),
  }));
  writeFileSync(
    join(path, 'truth.json'),
    JSON.stringify({mode: clusterName(cluster), check: judgement.check, packet: judgement.packet, flows: sent}, null, 1),
  );
}
