import {Buffer} from 'node:buffer';
import {partition, pushTo} from '../../model/lists.ts';
import {parseNodeAddresses} from '../../parse/ipvs/kube-ipvs0.ts';
import {asSysctls, asVirtualServers, firstCommands, serverLines, serverPaths, sysctlPaths} from './node-commands.ts';
import {jointPages} from './kube-proxy-pages.ts';
import type {JointCommand, NodeCommand} from './node-command.ts';
import type {NodeShell} from './transport.ts';

// Where each command is a connection of its own: several files of a node by one run of a program that prints them all.

/** The tables of iptables-legacy. Like the second counts of lost packets, they are read with others or not at all. */
const legacyTables: NodeCommand = {file: 'legacy-tables', partOf: 'iptables-legacy-save', variants: []};
const statisticsAfter: NodeCommand = {file: 'conntrack-stats-after', variants: []};
/** What stands for it on a node in IPVS mode, which is not known before. */
export const kernelServers: NodeCommand = {file: 'ip-vs', partOf: 'ipvsadm-save', variants: []};
export const jointOnly = [legacyTables, statisticsAfter, kernelServers];

/** The joint commands for these files, and the commands that are left. */
export function jointReads(
  commands: readonly NodeCommand[],
  {readPage, opensSessions}: NodeShell,
): readonly [joint: readonly JointCommand[], single: readonly NodeCommand[]] {
  // With counters a file is read by another command.
  const usual = commands.filter(command => firstCommands.includes(command) || jointOnly.includes(command));
  const files = new Set(usual.map(({file}) => file));
  const joint = [
    ...(readPage === undefined && jointPages.files.every(file => files.has(file)) ? [jointPages] : []),
    ...(opensSessions === true ? [ipFiles(files), kernelFiles(files)].filter(({files: {length}}) => length > 1) : []),
  ];
  const given = new Set(joint.flatMap(({files: own}) => own));
  return [joint, commands.filter(command => !(usual.includes(command) && given.has(command.file)))];
}

/** What is asked of `ip` for each file, and what its answer holds. */
const questions: readonly (readonly [file: string, question: string, answer: string])[] = [
  ['addresses.json', 'addr', '"addr_info":'],
  ['netconf.json', 'netconf', '"interface":'],
  ['ip-rules.json', 'rule', '"priority":'],
  ['routes.json', 'route show table all', '"dst":'],
];

/**
 * `ip -batch` reads its questions from a file: that of its own command line, whose last word are these lines. It needs no input then, which
 * older API servers cannot end. With details, the addresses are the links too.
 */
function ipFiles(wanted: ReadonlySet<string>): JointCommand {
  const asked = questions.filter(([file]) => wanted.has(file));
  const withLinks = wanted.has('links.json') && wanted.has('addresses.json');
  return {
    files: [...asked.map(([file]) => file), ...(withLinks ? ['links.json'] : [])],
    argv: ['ip', '-d', '-j', '-force', '-batch', '/proc/self/cmdline', `\n${asked.map(([, question]) => question).join('\n')}\n`],
    // The rest of the command line is no question: the program says so at its end.
    keepsPart: true,
    maxBytes: 16_000_000,
    split: output => {
      const found = answersIn(output, asked);
      const addresses = found.get('addresses.json');
      return new Map([...found, ...(withLinks && addresses !== undefined ? ([['links.json', addresses]] as const) : [])]);
    },
  };
}

/** One line for each question that was answered. None where they cannot be told apart: one that failed prints nothing. */
function answersIn(output: Buffer, asked: typeof questions): ReadonlyMap<string, Buffer> {
  const lines = output.toString('utf8').split('\n').slice(0, -1);
  const found = new Map<string, Buffer>();
  let from = 0;
  for (const line of lines) {
    if (!/^\[.*\]$/.test(line)) return new Map();
    const at = asked.findIndex(([, , answer], index) => index >= from && (line.includes(answer) || lines.length === asked.length));
    if (at < 0) return new Map();
    found.set(asked[at]?.[0] ?? '', Buffer.from(`${line}\n`));
    from = at + 1;
  }
  return found;
}

/** Whether a node has an address of IPv6 that others can reach: without one, its rules of policy routing for IPv6 decide nothing. */
export function hasIPv6(addresses: Buffer | undefined): boolean {
  const all = addresses === undefined ? null : parseNodeAddresses(addresses.toString('utf8'));
  return all === null || all.some(({addresses: own}) => own.some(address => address.includes(':') && !/^(?:fe80:|::1$)/i.test(address)));
}

const tables = ['/proc/net/ip_tables_names', '/proc/net/ip6_tables_names'];
const connections = '/proc/net/nf_conntrack';
const statistics = '/proc/net/stat/nf_conntrack';
/** Not all users may read the others. */
const user = '/proc/self/status';

/** Files of the kernel by one `grep`, which prints each line with its file. The counts of lost packets come first and last. */
function kernelFiles(wanted: ReadonlySet<string>): JointCommand {
  const files = ['conntrack-stats', 'sysctls', legacyTables.file, kernelServers.file, 'conntrack', 'conntrack-tcp', statisticsAfter.file];
  const tracked = ['conntrack', 'conntrack-tcp'].filter(file => wanted.has(file));
  const paths = [statistics, ...sysctlPaths, ...tables, ...serverPaths, user, ...(tracked.length === 0 ? [] : [connections]), statistics];
  const patterns = [
    '^[^=:]*$',
    '^Uid:',
    `^(?:${serverLines})`,
    ...tracked.map(file => (file === 'conntrack' ? '^\\S+ +\\d+ udp ' : tcpConnections)),
  ];
  return {
    files: files.filter(file => wanted.has(file)),
    argv: ['grep', '-asHP', patterns.join('|'), ...paths],
    keepsPart: true,
    maxBytes: 64_000_000,
    split: output => splitKernelFiles(output.toString('latin1')),
  };
}

/** Those without an answer, and those whose destination was rewritten: the answers do not come from there. */
const tcpConnections =
  '^\\S+ +\\d+ tcp .*(?:SYN_SENT|ESTABLISHED src=\\S+ dst=(\\S+) sport=\\d+ dport=(\\d+) (?!(?:\\S+ )*?src=\\1 dst=\\S+ sport=\\2 ))';

function splitKernelFiles(output: string): ReadonlyMap<string, Buffer> {
  const lines = new Map<string, string[]>();
  for (const line of output.split('\n')) {
    const [path = '', rest = ''] = line.split(/:(.*)/s);
    const isSecond = path === statistics && lines.has(user);
    pushTo(lines, isSecond ? 'after' : path, /^\/proc\/(?:sys\/|net\/ip_vs$)/.test(path) ? line : rest);
  }
  const linesOf = (paths: Iterable<string>): readonly string[] => [...paths].flatMap(path => lines.get(path) ?? []);
  const text = (of: readonly string[]): Buffer => Buffer.from(of.map(line => `${line}\n`).join(''), 'latin1');
  const found = new Map<string, Buffer>();
  const [before, after] = [linesOf([statistics]), linesOf(['after'])];
  const sysctls = linesOf([...lines.keys()].filter(path => path.startsWith('/proc/sys/') && !serverPaths.includes(path)));
  const servers = asVirtualServers(linesOf(serverPaths));
  if (servers !== null) found.set(kernelServers.file, servers);
  if (sysctls.length > 0) found.set('sysctls', asSysctls([text(sysctls)]));
  if (before.length > 0) found.set('conntrack-stats', text(before));
  if (after.length > 0) found.set(statisticsAfter.file, text(after));
  // Only root may read the others. A kernel that shows no counts shows no connections either.
  if (!/^Uid:\t\d+\t0\b/.test(linesOf([user])[0] ?? '')) return found;
  found.set(legacyTables.file, text(linesOf(tables)));
  const [udp, tcp] = partition(linesOf([connections]), line => / udp /.test(line.slice(0, 20)));
  if (before.length > 0) found.set('conntrack', text(udp)).set('conntrack-tcp', text(tcp));
  return found;
}
