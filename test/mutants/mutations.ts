import {parseAddress, parseCidr, formatAddress} from '../../src/model/address.ts';

/** The five kinds of changes that are made to one rule of a dump. */
export const mutationKinds = ['delete', 'double', 'target', 'address', 'swap'] as const;
export type MutationKind = (typeof mutationKinds)[number];

/** A dump in which one rule was changed. */
export interface Mutation {
  readonly kind: MutationKind;
  /** The line of the rule, counted from 1. */
  readonly line: number;
  readonly table: string;
  readonly chain: string;
  readonly before: string;
  /** The lines that stand in its place, and in the place of the next rule for a swap. */
  readonly after: readonly string[];
  /** How many lines of the dump they replace. */
  readonly replaced: number;
}

/** The dump with the change made. */
export function mutate(dump: string, {line, after, replaced}: Mutation): string {
  const lines = dump.split('\n');
  lines.splice(line - 1, replaced, ...after);
  return lines.join('\n');
}

/** Every change of the five kinds to every rule of a dump, in the order of its lines. */
export function mutationsOf(dump: string): readonly Mutation[] {
  const lines = dump.split('\n');
  const chains = chainsByTable(lines);
  const found: Mutation[] = [];
  let table = '';
  for (const [at, text] of lines.entries()) {
    if (text.startsWith('*')) table = text.slice(1);
    if (!text.startsWith('-A ')) continue;
    const chain = chainOf(text);
    const base = {line: at + 1, table, chain, before: text, replaced: 1};
    found.push({...base, kind: 'delete', after: []}, {...base, kind: 'double', after: [text, text]});
    for (const after of otherTargets(text, {table, chains: chains.get(table) ?? [], lines}))
      found.push({...base, kind: 'target', after: [after]});
    for (const after of otherAddresses(text, lines)) found.push({...base, kind: 'address', after: [after]});
    const next = lines[at + 1] ?? '';
    if (next.startsWith('-A ') && chainOf(next) === chain && next !== text)
      found.push({...base, kind: 'swap', after: [next, text], replaced: 2});
  }
  return found;
}

function chainOf(rule: string): string {
  return rule.split(' ', 2)[1] ?? '';
}

function chainsByTable(lines: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const chains = new Map<string, string[]>();
  let table = '';
  for (const line of lines) {
    if (line.startsWith('*')) table = line.slice(1);
    const name = /^:(\S+) -/.exec(line)?.[1];
    if (name !== undefined) chains.set(table, [...(chains.get(table) ?? []), name]);
  }
  return chains;
}

interface Surroundings {
  readonly table: string;
  /** The user chains of the table. */
  readonly chains: readonly string[];
  readonly lines: readonly string[];
}

const ends: Readonly<Record<string, readonly string[]>> = {
  nat: ['RETURN', 'ACCEPT'],
  filter: ['RETURN', 'ACCEPT', 'DROP', 'REJECT --reject-with icmp-port-unreachable'],
};

/** Another chain of the same role, a sibling of the same chain, a goto in place of a jump, and every plain end that the table allows. */
function otherTargets(text: string, {table, chains, lines}: Surroundings): readonly string[] {
  const found = /^(.*) -j (\S+)(.*)$/.exec(text);
  if (found === null) return [];
  const [, head = '', target = ''] = found;
  const family = lines[0]?.includes('ip6tables') ? 'IPv6' : 'IPv4';
  const plain = (ends[table] ?? ['RETURN']).map(end => (family === 'IPv6' ? end.replace('icmp-', 'icmp6-') : end));
  const others = plain.filter(end => end.split(' ')[0] !== target).map(end => `${head} -j ${end}`);
  if (!chains.includes(target)) return others;
  const role = roleOf(target);
  const same = chains.filter(name => roleOf(name) === role);
  const next = same[(same.indexOf(target) + 1) % same.length];
  const siblings = lines
    .filter(line => line.startsWith(`-A ${chainOf(text)} `))
    .map(line => / -j (\S+)/.exec(line)?.[1] ?? '')
    .filter(name => chains.includes(name) && name !== target);
  const elsewhere = new Set([
    ...(next === undefined || next === target ? [] : [next]),
    ...siblings.slice(0, 1),
    ...thirdPartyRole(role, chains),
  ]);
  elsewhere.delete(target);
  return [...others, `${head} -g ${target}`, ...[...elsewhere].map(name => `${head} -j ${name}`)];
}

function roleOf(chain: string): string {
  return /^KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-/.exec(chain)?.[0] ?? chain;
}

/** The chain with which a chain of this role is most easily mixed up. */
function thirdPartyRole(role: string, chains: readonly string[]): readonly string[] {
  const other: Readonly<Record<string, string>> = {
    'KUBE-SVC-': 'KUBE-SVL-',
    'KUBE-SVL-': 'KUBE-SVC-',
    'KUBE-EXT-': 'KUBE-SVC-',
    'KUBE-FW-': 'KUBE-EXT-',
    'KUBE-XLB-': 'KUBE-SVC-',
    'KUBE-SERVICES': 'KUBE-NODEPORTS',
    'KUBE-NODEPORTS': 'KUBE-SERVICES',
    'KUBE-FORWARD': 'KUBE-SERVICES',
    'KUBE-EXTERNAL-SERVICES': 'KUBE-SERVICES',
    'KUBE-PROXY-FIREWALL': 'KUBE-SERVICES',
    'KUBE-POSTROUTING': 'KUBE-MARK-MASQ',
    'KUBE-MARK-MASQ': 'KUBE-POSTROUTING',
  };
  const wanted = other[role];
  return wanted === undefined ? [] : chains.filter(name => name.startsWith(wanted)).slice(0, 1);
}

/** Each address and each port of the rule is changed: to an unused neighbor, and to one that another rule of the dump has. */
function otherAddresses(text: string, lines: readonly string[]): readonly string[] {
  const changed = new Set<string>();
  for (const flag of ['-s', '-d']) {
    const value = new RegExp(` ${flag} (\\S+)`).exec(text)?.[1];
    if (value === undefined) continue;
    const borrowed = borrow(lines, new RegExp(` ${flag} (\\S+)`), value);
    for (const other of [...nextNetwork(value), ...borrowed]) changed.add(text.replace(` ${flag} ${value}`, ` ${flag} ${other}`));
  }
  const port = / --dport (\d+)/.exec(text)?.[1];
  if (port !== undefined) {
    const borrowed = borrow(lines, / --dport (\d+)/, port);
    for (const other of [String(Number(port) + 1), ...borrowed]) changed.add(text.replace(` --dport ${port}`, ` --dport ${other}`));
  }
  const destination = / --to-destination (\S+)/.exec(text)?.[1];
  if (destination !== undefined) {
    const borrowed = borrow(lines, / --to-destination (\S+)/, destination);
    for (const other of [...nextHostPorts(destination), ...borrowed]) changed.add(text.replace(destination, other));
  }
  changed.delete(text);
  return [...changed];
}

/** The next other value of the kind in the dump, as after a mix-up. */
function borrow(lines: readonly string[], pattern: RegExp, value: string): readonly string[] {
  const values = [...new Set(lines.flatMap(line => (line.startsWith('-A ') ? (pattern.exec(line)?.[1] ?? []) : [])))].sort();
  const next = values[(values.indexOf(value) + 1) % values.length];
  return next === undefined || next === value ? [] : [next];
}

function nextNetwork(text: string): readonly string[] {
  const cidr = parseCidr(text);
  if (cidr === null) return [];
  const bits = cidr.family === 'IPv4' ? 32 : 128;
  const size = 1n << BigInt(bits - cidr.prefix);
  return [`${formatAddress(cidr.family, (cidr.base + size * 97n) % (1n << BigInt(bits)))}/${cidr.prefix}`];
}

function nextHostPorts(text: string): readonly string[] {
  const found = /^\[?([^\]]*?)\]?:(\d+)$/.exec(text);
  const address = parseAddress(found?.[1] ?? '');
  if (found === null || address === null) return [];
  const write = (host: string, port: number): string => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);
  const port = Number(found[2]);
  return [write(formatAddress(address.family, address.value + 97n), port), write(address.text, port + 1)];
}
