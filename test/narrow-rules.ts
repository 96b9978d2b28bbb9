import {parseCidr} from '../src/model/address.ts';
import {intervalsOf} from '../src/model/intervals.ts';
import {parseInterval} from '../src/parse/nftables/address-list.ts';
import type {Snapshot} from '../src/model/snapshot.ts';
import type {SenderSpace} from '../src/trace/sender-space.ts';
import {askNodes, type PacketFlags} from '../src/run/packet/packet-flags.ts';
import type {Random} from './bench/random.ts';
import {withRule} from './editable-dump.ts';
import {snapshotOf, withFiles} from './fixtures.ts';

/** A dump with a rule more. */
interface Narrow {
  readonly rule: string;
  readonly dump: string;
}

type Some<T> = readonly [T, ...T[]];

/** Of the node whose rules are asked. */
const nodeAddress = '172.18.0.11';
/** Pods, nodes and a client that send packets. */
export const hosts: Some<string> = ['10.244.11.4', '10.244.11.20', '10.244.12.20', nodeAddress, '172.18.0.12', '203.0.113.9'];

/** A source that a rule asks for: hosts, networks, a range, or all but one of them. */
function source(random: Random, isNft: boolean): string {
  const host = (): string => (random.chance(0.5) ? random.pick(hosts) : `10.244.${random.pick([11, 12])}.${random.below(256)}`);
  const network = parseCidr(`${host()}/${random.pick([24, 25, 27, 29, 32])}`)?.text ?? '';
  const not = random.chance(0.2);
  if (isNft) {
    const set = sorted([host(), '10.244.11.128/26']).join(', ');
    return `ip saddr ${not ? '!= ' : ''}${random.chance(0.3) ? `{ ${set} }` : network.replace('/32', '')}`;
  }
  if (random.chance(0.2))
    return `-m iprange ${not ? '! ' : ''}--src-range 10.244.11.${random.below(100)}-10.244.11.${100 + random.below(100)}`;
  return `${not ? '! ' : ''}-s ${network}`;
}

/** As nft prints the elements of a set: in order, and a host inside of a network not at all. */
function sorted(networks: readonly string[]): readonly string[] {
  const found = intervalsOf(networks.flatMap(text => parseInterval(text) ?? []).map(({low, high}) => [low, high] as const));
  const start = (text: string): bigint => parseInterval(text)?.low ?? 0n;
  return networks.filter(text => found.some(([low]) => low === start(text))).toSorted((a, b) => (start(a) < start(b) ? -1 : 1));
}

function sport(random: Random, isNft: boolean): string {
  const low = random.below(60_000);
  if (!random.chance(0.3)) return '';
  return isNft ? `tcp sport ${low}-${low + 5000} ` : `-p tcp -m tcp --sport ${low}:${low + 5000} `;
}

const basePlaces: Some<readonly [table: string, chain: string]> = [
  ['filter', 'FORWARD'],
  ['filter', 'INPUT'],
  ['filter', 'OUTPUT'],
  ['nat', 'PREROUTING'],
  ['nat', 'OUTPUT'],
  ['nat', 'POSTROUTING'],
  ['raw', 'PREROUTING'],
  ['mangle', 'FORWARD'],
  ['mangle', 'POSTROUTING'],
];

const targets: Readonly<Record<string, Some<string>>> = {
  filter: ['DROP', 'ACCEPT', 'REJECT'],
  nat: ['RETURN', 'ACCEPT', 'MARK --set-xmark 0x4000/0x4000'],
  raw: ['DROP', 'CT --notrack', 'ACCEPT'],
  mangle: ['DROP', 'MARK --set-xmark 0x4000/0x4000', 'MARK --set-xmark 0x0/0x4000', 'ACCEPT'],
};

function iptablesRule(random: Random, dump: string): Narrow {
  const chains = [...dump.matchAll(/^:(KUBE-(?:SERVICES|NODEPORTS|SVC-\w+|SEP-\w+)) /gm)].map(([, name = '']) => ['nat', name] as const);
  const [table, chain] = random.chance(0.5) ? random.pick(basePlaces) : random.pick([...basePlaces, ...chains]);
  const text = `-A ${chain} ${source(random, false)} ${sport(random, false)}-j ${random.pick(targets[table] ?? ['DROP'])}`;
  return {rule: text, dump: withRule(table, text)(dump)};
}

const hooks: Some<string> = ['prerouting', 'input', 'forward', 'output', 'postrouting'];

function nftRule(random: Random, dump: string): Narrow {
  const rule = `${source(random, true)} ${sport(random, true)}${random.pick(['drop', 'accept', 'meta mark set 0x00004000'])}`;
  const chains = [...dump.matchAll(/^\tchain ((?:service|endpoint|services|nodeport)\S*|forward|output) \{\n/gm)].map(([line]) => line);
  if (random.chance(0.4) || chains[0] === undefined)
    return {
      rule,
      dump: `${dump}table inet other {\n\tchain other {\n\t\ttype filter hook ${random.pick(hooks)} priority ${random.pick([-250, -10, 0, 10])}; policy accept;\n\t\t${rule}\n\t}\n}\n`,
    };
  const line = random.pick(chains as [string, ...string[]]);
  return {rule, dump: dump.replace(line, () => `${line}\t\t${rule}\n`)};
}

export const narrowModes = ['iptables', 'nftables', 'ipvs'] as const;
type Mode = (typeof narrowModes)[number];

const captures: Readonly<Record<Mode, {readonly name: string; readonly file: string}>> = {
  iptables: {name: 'healthy/1.36-iptables', file: 'iptables-save'},
  nftables: {name: 'nftables/1.36', file: 'nft.txt'},
  ipvs: {name: 'ipvs/1.36', file: 'iptables-save'},
};

/** A healthy capture with running pods, whose node-a can get a rule of random width in a random place. */
export async function narrowRules(mode: Mode, random: Random) {
  const {name, file} = captures[mode];
  const captured = await snapshotOf(name);
  const healthy: Snapshot = {...captured, api: {...captured.api, pods}, nodes: captured.nodes.filter(node => node.name === 'node-a')};
  const [node] = healthy.nodes;
  const dump = node?.read(file)?.toString() ?? '';
  if (node === undefined || dump === '') throw new Error(`${name} has no ${file} of node-a`);
  const next = () => {
    const {rule, dump: text} = mode === 'nftables' ? nftRule(random, dump) : iptablesRule(random, dump);
    // It has the rules as they were in nft.json.
    return {rule, snapshot: {...healthy, nodes: [withFiles(node, {'nft.json': null, [file]: text})]}};
  };
  return {healthy, next};
}

const pods = [
  ['10.244.11.4', 'node-a'],
  ['10.244.11.5', 'node-a'],
  ['10.244.11.20', 'node-a'],
  ['10.244.12.4', 'node-b'],
  ['10.244.12.20', 'node-b'],
].map(([podIP = '', nodeName = '']) => ({
  metadata: {name: podIP.replaceAll('.', '-'), namespace: 'shop'},
  spec: {nodeName, containers: []},
  status: {phase: 'Running', podIP, podIPs: [{ip: podIP}]},
}));

/** What `packet` says of a sender: the outcomes, and the senders for which they hold; null for the node itself. */
export function answerTo(snapshot: Snapshot, flags: PacketFlags): {readonly said: string; readonly space: SenderSpace | null} {
  const [answer] = askNodes(flags, snapshot);
  // What the node itself sends leaves with the same address whether or not it is masqueraded.
  const isOfNode = flags.source === nodeAddress;
  const said = (answer?.outcomes ?? []).map(({verdict, destination, masquerade, probability, lost}) =>
    [verdict, destination, masquerade && !isOfNode, probability.toFixed(6), lost].join(' '),
  );
  return {said: said.join('; '), space: answer?.space ?? null};
}
