import type {ApiObjects, NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {bareCluster, minors} from '../random-cluster.ts';
import {type WrittenMode, writtenNode} from '../rendered-node.ts';
import {changeObjects, replaceEndpoints} from './object-faults.ts';
import {changeRules} from './rule-faults.ts';
import {ipvsMutants} from '../mutants/ipvs-mutants.ts';
import {nftMutations} from '../mutants/nft-mutations.ts';
import {withFiles} from '../fixtures.ts';

interface CaseOptions {
  /** Drawn if it is left out: iptables or nftables. */
  readonly mode?: WrittenMode | undefined;
  /** How many copies of each Service there are. */
  readonly copies?: number | undefined;
}

/** A cluster of three nodes on which one to six things are wrong at once. The same seed gives the same cluster. */
export function randomCase(seed: number, {mode: wanted, copies = 0}: CaseOptions = {}): Snapshot {
  const random = seededRandom(seed);
  const drawn = random.pick(['iptables', 'iptables', 'nftables'] as const);
  const mode = wanted ?? drawn;
  const minor = mode === 'nftables' ? random.pick([29, 30, 31, 33, 34, 35, 36]) : random.pick(minors);
  const single = bareCluster(random, minor);
  const bare = {...single, api: withClones(single.api, copies)};
  const {api, faults} = laterObjects(bare.api, random);
  // A kube-proxy that stopped has written the rules for the objects of before.
  const allStopped = random.chance(0.5);
  const written = bare.nodes.map(node => writtenNode(node, allStopped || random.chance(0.5) ? bare.api : api, {mode, random}));
  const nodes = written.map(node => (random.chance(0.7) ? withFaults(node, {mode, count: 1 + random.below(6 - faults), random}) : node));
  return {...bare, api, nodes};
}

function laterObjects(before: ApiObjects, random: Random): {readonly api: ApiObjects; readonly faults: number} {
  let api = random.chance(0.5) ? replaceEndpoints(before, random) : before;
  const faults = random.below(3);
  for (let count = faults; count > 0; count--) api = changeObjects(api, random);
  return {api, faults};
}

interface Faults {
  readonly mode: WrittenMode;
  readonly count: number;
  readonly random: Random;
}

function withFaults(node: NodeDump, {mode, count, random}: Faults): NodeDump {
  let changed = node;
  for (let left = count; left > 0; left--) changed = withFault(changed, mode, random);
  return changed;
}

function withFault(node: NodeDump, mode: WrittenMode, random: Random): NodeDump {
  if (mode === 'ipvs') return changeIpvs(node, random);
  const file = mode === 'nftables' ? 'nft.txt' : random.pick(['iptables-save', 'iptables-save', 'ip6tables-save']);
  const text = node.read(file)?.toString() ?? '';
  return withFiles(node, {[file]: mode === 'nftables' ? changeNft(text, random) : changeRules(text, random)});
}

/** The objects of `randomCluster` with so many copies of each Service, which differ in names, addresses and node ports alone. */
function withClones(api: ApiObjects, copies: number): ApiObjects {
  const numbers = Array.from({length: copies + 1}, (_, index) => index);
  return {
    ...api,
    services: numbers.flatMap(copy => (api.services ?? []).map(service => cloned(service, copy))),
    endpointSlices: numbers.flatMap(copy => (api.endpointSlices ?? []).map(slice => cloned(slice, copy))),
  };
}

function cloned<T>(object: T, copy: number): T {
  if (copy === 0) return object;
  return JSON.parse(JSON.stringify(object), (key, value: unknown) => {
    if (typeof value === 'number') return /nodePort$/i.test(key) ? value + 500 * copy : value;
    return typeof value === 'string' ? clonedText(value, copy) : value;
  }) as T;
}

/** Addresses of nodes and source ranges stay as they are. */
function clonedText(text: string, copy: number): string {
  return text
    .replace(/^svc-\d+/, name => `${name}-copy-${copy}`)
    .replace(/^10\.96\.0\.(\d+)$/, `10.96.${copy}.$1`)
    .replace(/^10\.244\.(\d)\.(\d+)$/, (_, node: string, host: string) => `10.244.${node}.${Number(host) + 80 * copy}`)
    .replace(/^203\.0\.113\.(\d+)$/, `203.0.${113 + copy}.$1`)
    .replace(/^fd00:96::(\w+)$/, `fd00:96::${copy}:$1`)
    .replace(/^fd00:10:(\d)::(\w+)$/, `fd00:10:$1::${copy}:$2`)
    .replace(/^2001:db8:1::(\w+)$/, `2001:db8:1:${copy}::$1`);
}

/** A node of IPVS mode on which something is wrong with one virtual server, real server, element, address or rule. */
function changeIpvs(node: NodeDump, random: Random): NodeDump {
  if (random.chance(0.5)) {
    const [first, ...rest] = ipvsMutants(node);
    if (first === undefined) return node;
    const {file, content} = random.pick([first, ...rest]);
    return withFiles(node, {[file]: content});
  }
  const [file, change] = random.pick<readonly [string, Change]>([
    ['iptables-save', changeRules],
    ['iptables-save', changeRules],
    ['ip6tables-save', changeRules],
    ['ipvsadm-save', moreServers],
    ['ipset-save', moreMembers],
    ['ipset-save', moreMembers],
  ]);
  return withFiles(node, {[file]: change(node.read(file)?.toString() ?? '', random)});
}

type Change = (text: string, random: Random) => string;

/** A virtual or real server that is not expected, or a part of them that is gone. */
function moreServers(text: string, random: Random): string {
  const lines = text.split('\n').filter(line => line !== '');
  const at = random.below(Math.max(1, lines.length));
  const line = lines[at] ?? '';
  const moved = line.replace(/(-[tu] (?:\[[^\]]*|[\d.]*))(\d)(\]?):(\d+)/, (_, start: string, digit: string, end: string, port: string) =>
    random.chance(0.5) ? `${start}${(Number(digit) + 5) % 10}${end}:${port}` : `${start}${digit}${end}:${Number(port) + 1}`,
  );
  const changed = random.chance(0.5) && line.startsWith('-A') ? [moved, line] : random.chance(0.3) ? [] : [line];
  return `${[...lines.slice(0, at), ...changed, ...lines.slice(at + 1)].join('\n')}\n`;
}

/** An element of one set in another set of the same type, or of a Service port in another form. */
function moreMembers(text: string, random: Random): string {
  const lines = text.split('\n').filter(line => line !== '');
  const elements = lines.flatMap((line, at) => (line.startsWith('add ') ? [at] : []));
  const at = elements[random.below(Math.max(1, elements.length))];
  if (at === undefined) return text;
  const line = lines[at] ?? '';
  const [, set = '', element = ''] = line.split(' ');
  const type = typeOf(lines, set);
  const others = lines.flatMap(other =>
    other.startsWith('create ') && typeOf(lines, other.split(' ')[1] ?? '') === type ? [other.split(' ')[1] ?? ''] : [],
  );
  const target = others[random.below(Math.max(1, others.length))] ?? set;
  return `${lines.toSpliced(at + 1, 0, `add ${target} ${element}`).join('\n')}\n`;
}

function typeOf(lines: readonly string[], set: string): string {
  return (
    lines
      .find(line => line.startsWith(`create ${set} `))
      ?.split(' ')
      .slice(2)
      .join(' ') ?? ''
  );
}

/** An `nft list ruleset` in which something is wrong with one rule, chain or element, or that a third party added to. */
function changeNft(ruleset: string, random: Random): string {
  if (random.chance(0.5)) {
    const [first, ...rest] = nftMutations(ruleset);
    return first === undefined ? ruleset : random.pick([first, ...rest]).text;
  }
  return random.pick([ruleInChain, ruleInChain, withoutElement, withoutElement, withoutRules, ownTable])(ruleset, random);
}

/** A rule at the start or the end of one of kube-proxy's chains. */
function ruleInChain(ruleset: string, random: Random): string {
  const lines = ruleset.split('\n');
  const heads = lines.flatMap((line, at) => (line.startsWith('\tchain ') ? [at] : []));
  const at = heads[random.below(Math.max(1, heads.length))];
  if (at === undefined) return ruleset;
  const first = lines[at + 1]?.startsWith('\t\ttype ') ? at + 2 : at + 1;
  const end = lines.indexOf('\t}', at);
  return lines.toSpliced(random.pick([first, end]), 0, `\t\t${ruleOf(ruleset, random)}`).join('\n');
}

function ruleOf(ruleset: string, random: Random): string {
  const addresses = [...ruleset.matchAll(/(?:dnat to |0 : |elements = \{ )(\d+\.\d+\.\d+\.\d+)/g)].map(([, address = '']) => address);
  const address = addresses[random.below(Math.max(1, addresses.length))] ?? '10.244.1.1';
  const chains = [...ruleset.matchAll(/^\tchain (\S+) \{$/gm)].map(([, name = '']) => name);
  const chain = chains[random.below(Math.max(1, chains.length))] ?? 'services';
  const condition = random.pick([
    `ip daddr ${address} `,
    `ip saddr ${address} `,
    'ip saddr 10.244.0.0/16 ',
    'ip daddr != 10.244.0.0/16 ',
    'meta mark & 0x00004000 == 0x00004000 ',
    'ct state new ',
    'iifname "eth0" ',
    'meta l4proto udp ',
    'tcp dport 80 ',
    'numgen random mod 2 == 0 ',
    '',
  ]);
  return condition + random.pick(['accept', 'drop', 'return', 'meta mark set meta mark | 0x00004000', `jump ${chain}`, `goto ${chain}`]);
}

function withoutElement(ruleset: string, random: Random): string {
  const lists = [...ruleset.matchAll(/^\t\telements = \{ (.*) \}$/gm)];
  const list = lists[random.below(Math.max(1, lists.length))];
  if (list === undefined) return ruleset;
  const elements = (list[1] ?? '').split(', ');
  const left = elements.toSpliced(random.below(elements.length), 1);
  const text = left.length === 0 ? '' : `\t\telements = { ${left.join(', ')} }`;
  return ruleset.slice(0, list.index) + text + ruleset.slice(list.index + list[0].length);
}

/** A chain without its rules. */
function withoutRules(ruleset: string, random: Random): string {
  const chains = [...ruleset.matchAll(/^\tchain \S+ \{\n(\t\ttype .*\n)?((?:\t\t.*\n)*)\t\}$/gm)];
  const chain = chains[random.below(Math.max(1, chains.length))];
  if (chain === undefined) return ruleset;
  return ruleset.slice(0, chain.index) + chain[0].replace(chain[2] ?? '', '') + ruleset.slice(chain.index + chain[0].length);
}

/** A table of a third party. */
function ownTable(ruleset: string, random: Random): string {
  const hook = random.pick([
    'type filter hook forward priority 0; policy accept;',
    'type filter hook forward priority 0; policy drop;',
    'type filter hook input priority 0; policy accept;',
    'type filter hook prerouting priority -150; policy accept;',
    'type nat hook prerouting priority -110; policy accept;',
    'type nat hook output priority -110; policy accept;',
    'type nat hook postrouting priority 90; policy accept;',
  ]);
  const rule = ruleOf('', random).replace(/(?:jump|goto) services/, 'accept');
  return `${ruleset}\ntable ip third-party-${random.below(1000)} {\n\tchain own {\n\t\t${hook}\n\t\t${rule}\n\t}\n}\n`;
}
