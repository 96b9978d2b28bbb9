import {Buffer} from 'node:buffer';
import type {Backend} from '../../model/ruleset.ts';
import {kubeProxyLog} from '../../model/node/kube-proxy-failures.ts';
import {chainByChain, parseDumpHeader} from '../../parse/iptables/dump-chain.ts';
import {parseInterfaceSwitches, parseLinks} from '../../parse/network-facts.ts';
import {parseNodeAddresses} from '../../parse/ipvs/kube-ipvs0.ts';
import {parseHealthz, parseSyncMetrics} from '../../parse/kube-proxy/kube-proxy-state.ts';
import {kubeProxyPages} from './kube-proxy-pages.ts';
import {type CommandVariant, type NodeCommand, parallel, type Run} from './node-command.ts';
import {CommandFailed} from './transport.ts';
import {append, partition} from '../../model/lists.ts';

/** Its version shows which backend the tools in use read. */
export const backendCommand: readonly string[] = ['iptables-save', '--version'];

export const versionCommand: NodeCommand = {file: 'iptables-version', variants: [{commands: [backendCommand], join: onlyVersionLine}]};

/** Those that a check reads, the ones of each interface aside. */
const sysctls = {
  'net.ipv4': ['ip_forward', 'ip_local_port_range', 'ip_local_reserved_ports'],
  'net.ipv4.conf.all': ['forwarding', 'rp_filter', 'route_localnet', 'arp_ignore', 'arp_announce'],
  'net.ipv4.vs': ['conn_reuse_mode', 'expire_nodest_conn', 'expire_quiescent_template'],
  'net.ipv6.conf.all': ['forwarding'],
  'net.bridge': ['bridge-nf-call-iptables', 'bridge-nf-call-ip6tables'],
  'net.netfilter': ['nf_conntrack_count', 'nf_conntrack_max', 'nf_conntrack_tcp_be_liberal'],
} as const;

/** The first reads of each node besides `versionCommand`. Only argvs: there may be no shell. */
export const firstCommands: readonly NodeCommand[] = [
  {file: 'iptables-save', variants: [{commands: [['iptables-save']]}], isDump: true, isRequired: true},
  {file: 'ip6tables-save', variants: [{commands: [['ip6tables-save']]}], isDump: true, isRequired: true},
  {file: 'addresses.json', variants: [{commands: [['ip', '-j', 'addr']]}]},
  {file: 'sysctls', variants: sysctlVariants()},
  {
    file: 'conntrack',
    variants: [
      {
        commands: [
          ['conntrack', '-L', '-p', 'udp'],
          ['conntrack', '-L', '-p', 'udp', '-f', 'ipv6'],
        ],
      },
      {commands: [['grep', '-F', 'udp', '/proc/net/nf_conntrack']]},
    ],
  },
  {
    // Those that get no answer are among them. A busy node has many; a program that lists IPv6 only with `-f` lists the others.
    file: 'conntrack-tcp',
    variants: [
      {
        commands: [
          ['conntrack', '-L', '-p', 'tcp', '--state', 'SYN_SENT'],
          ['conntrack', '-L', '-p', 'tcp', '--state', 'ESTABLISHED', '--dst-nat'],
        ],
      },
      {commands: [['grep', '-E', ' tcp .*(SYN_SENT|ESTABLISHED)', '/proc/net/nf_conntrack']], keepsPart: true},
    ],
    maxBytes: 8_000_000,
  },
  // As `nft list tables`, which reads all rules to print the names: 0.7 s and 110 MB where iptables-nft holds 30,000.
  {file: 'nft-tables', partOf: 'nft.json', variants: [{commands: [['nft', 'list', 'flowtables']], join: tableNames}]},
  {file: 'kube-proxy-version', variants: [{commands: [['kube-proxy', '--version']], join: onlyVersion}]},
  ...kubeProxyPages,
  {file: 'links.json', variants: [{commands: [['ip', '-d', '-j', 'link']]}]},
  // The switches of all interfaces, those of pods too. IPv6 forwards by the switch for all alone.
  {file: 'netconf.json', variants: [{commands: [['ip', '-j', '-4', 'netconf']]}], maxBytes: 1_000_000},
  // Both families. A router may have a million routes.
  {file: 'routes.json', variants: [{commands: [['ip', '-j', 'route', 'show', 'table', 'all']]}], maxBytes: 4_000_000},
  {file: 'ip-rules.json', variants: [{commands: [['ip', '-j', 'rule']]}], maxBytes: 1_000_000},
  {file: 'ip6-rules.json', variants: [{commands: [['ip', '-6', '-j', 'rule']]}], maxBytes: 1_000_000},
  connectionCounts('conntrack-stats'),
];

/** The dumps of the backend that the default tools do not read, by their version; none if that is not known. */
export function otherBackends(read: ReadonlyMap<string, Buffer>): readonly NodeCommand[] {
  return read.has('iptables-version') ? tools.flatMap(tool => backendsBut(tool, backendOf(beginningOf(read, 'iptables-version')))) : [];
}

/** Further reads, depending on the first results. */
export function furtherCommands(read: ReadonlyMap<string, Buffer>): readonly NodeCommand[] {
  const commands = tools.flatMap(tool => backendsBut(tool, defaultBackend(tool, read)));
  commands.push({
    file: 'nft.json',
    inParts: (run, lacks) => readNftTables(read, run, lacks),
    variants: [{commands: ['ip', 'ip6'].map(family => nftTable(family, 'kube-proxy')), join: joinNft}],
  });
  const hasSets = dumpHolds(read, '--match-set');
  // The rules of IPVS mode match sets. To search a large dump twice takes as long as to read it.
  const hasIpvs =
    holds(read, 'addresses.json', '"kube-ipvs0"') ||
    holds(read, 'proxy-mode', 'ipvs') ||
    (hasSets && dumpHolds(read, 'KUBE-LOAD-BALANCER'));
  if (hasIpvs) {
    commands.push({file: 'ipvsadm-save', variants: [{commands: [['ipvsadm-save', '-n']]}, {commands: [['ipvsadm', '-S', '-n']]}]});
    commands.push({file: 'kube-ipvs0.json', variants: [{commands: [['ip', '-j', 'addr', 'show', 'dev', 'kube-ipvs0']]}]});
  }
  // Where kube-proxy is no pod. K3s and others log everything in one.
  if (mayHaveFailed(read))
    commands.push({
      ...{file: kubeProxyLog, maxBytes: 1_000_000},
      variants: [{commands: [['journalctl', '-q', '--no-pager', '-o', 'cat', '-n', '1000', ...journalUnits.map(unit => `-u${unit}`)]]}],
    });
  if (parseInterfaceSwitches(read.get('netconf.json')?.toString('utf8') ?? '') === null)
    append(commands, interfaceSysctls(read.get('addresses.json')));
  // Counts since the node was booted: what grows while it is read is lost now.
  if (read.has('conntrack-stats')) commands.push(connectionCounts('conntrack-stats-after'));
  if (hasIpvs || hasSets) commands.push({file: 'ipset-save', variants: [{commands: [['ipset', 'save']]}]});
  return commands;
}

const journalUnits = ['kube-proxy', 'k3s', 'k3s-agent', 'snap.microk8s.daemon-kubelite', 'k0sworker'] as const;

/** Whether a node shows that its kube-proxy may have failed: none of its rules is there, or it says so itself. */
export function mayHaveFailed(read: ReadonlyMap<string, Buffer>): boolean {
  const hasRules =
    dumpHolds(read, 'KUBE-SVC-') ||
    dumpHolds(read, 'KUBE-CLUSTER-IP') ||
    holds(read, 'nft.json', 'service-ips') ||
    holds(read, 'nft-ruleset.json', 'service-ips');
  const {lastSync, lastQueued, restoreFailures} = parseSyncMetrics(read.get('metrics')?.toString('utf8') ?? '');
  const isBehind = [...lastQueued].some(([family, queued]) => queued - (lastSync.get(family) ?? 0) > 0);
  return !hasRules || restoreFailures > 0 || isBehind || parseHealthz(read.get('healthz.json')?.toString('utf8') ?? '')?.healthy === false;
}

const tools = ['iptables', 'ip6tables'] as const;
type Tool = (typeof tools)[number];

/** The backend that the default tool reads; null if that is not known, or nothing was read with it. */
function defaultBackend(tool: Tool, read: ReadonlyMap<string, Buffer>): Backend | null {
  const header = beginningOf(read, `${tool}-save`);
  // The headers of 1.8.4 to 1.8.7 do not name it.
  const isNamed = header !== '' && parseDumpHeader(header.split('\n', 1)[0] ?? '')?.backend !== null;
  const said = isNamed ? header : beginningOf(read, 'iptables-version') || header;
  return read.has(`${tool}-save`) && said !== '' ? backendOf(said) : null;
}

function backendOf(said: string): Backend {
  return said.includes('nf_tables') ? 'nft' : 'legacy';
}

/** The beginning of a file; empty if it was not read. */
function beginningOf(read: ReadonlyMap<string, Buffer>, file: string): string {
  return read.get(file)?.toString('latin1', 0, 200) ?? '';
}

function backendsBut(tool: Tool, current: Backend | null): readonly NodeCommand[] {
  return (['legacy', 'nft'] as const)
    .filter(backend => backend !== current)
    .map(backend => ({
      file: `${tool}-${backend}-save`,
      variants: [{commands: [[`${tool}-${backend}-save`]], join: onlyWithTables}],
      isDump: true,
    }));
}

/** A backend without tables is not in use. */
function onlyWithTables(outputs: readonly Buffer[]): Buffer | null {
  const dump = Buffer.concat(outputs);
  return dump.includes('\n*') || dump[0] === 0x2a ? dump : null;
}

function holds(read: ReadonlyMap<string, Buffer>, file: string, text: string): boolean {
  return read.get(file)?.includes(text) ?? false;
}

function dumpHolds(read: ReadonlyMap<string, Buffer>, text: string): boolean {
  return [...read.keys()].some(file => /^ip6?tables.*-save$/.test(file) && holds(read, file, text));
}

/** The files behind `sysctls`, which `grep` prints with their names. It fails where one of them does not exist. */
function sysctlVariants(): readonly CommandVariant[] {
  const names = Object.entries(sysctls).flatMap(([folder, own]) => own.map(name => `${folder}.${name}`));
  return [grepSysctls(names.map(name => name.replaceAll('.', '/'))), {commands: [['sysctl', '-e', ...names]]}];
}

function grepSysctls(paths: readonly string[]): CommandVariant {
  return {commands: [['grep', '-sH', '', ...paths.map(path => `/proc/sys/${path}`)]], join: asSysctls, keepsPart: true};
}

/**
 * Those of each interface, where `ip netconf` did not list them, without the ones that lead to pods: to search the folders of hundreds takes
 * most of a second. The interface of a node that is itself a container has its other end elsewhere too, and is known by its network.
 */
function interfaceSysctls(addresses: Buffer | undefined): readonly NodeCommand[] {
  const text = addresses?.toString('utf8') ?? '';
  const links = parseLinks(text) ?? [];
  const isNetwork = (network: string): boolean => /\.\d+\/(?!32$)/.test(network);
  const wired = new Set(parseNodeAddresses(text)?.flatMap(({name, networks}) => (networks.some(isNetwork) ? name : [])));
  const names = links
    .filter(({name, isPeerElsewhere}) => (!isPeerElsewhere || wired.has(name)) && /^[\w.-]+$/.test(name) && !/^\.+$/.test(name))
    .slice(0, maxInterfaces);
  const paths = names.flatMap(({name}) => ['rp_filter', 'forwarding'].map(own => `net/ipv4/conf/${name}/${own}`));
  return paths.length === 0 ? [] : [{file: 'interface-sysctls', variants: [grepSysctls(paths)]}];
}

const maxInterfaces = 40;

function asSysctls(outputs: readonly Buffer[]): Buffer {
  const lines = Buffer.concat(outputs).toString('utf8');
  return Buffer.from(lines.replace(/^\/proc\/sys\/(.*?):/gm, (_, path: string) => `${path.replaceAll('/', '.')} = `));
}

function connectionCounts(file: string): NodeCommand {
  return {file, variants: [{commands: [['conntrack', '-S']]}, {commands: [['cat', '/proc/net/stat/nf_conntrack']]}]};
}

/** An iptables-save that ignores the flag prints all its rules. */
function onlyVersionLine(outputs: readonly Buffer[]): Buffer | null {
  const line = /^ip6?tables-save v.*/.exec(outputs[0]?.toString('latin1', 0, 200) ?? '')?.[0];
  return line === undefined ? null : Buffer.from(`${line}\n`);
}

/** `Kubernetes v1.36.2` is v1.36.2. */
function onlyVersion(outputs: readonly Buffer[]): Buffer | null {
  const version = /v\d+\.\S+/.exec(Buffer.concat(outputs).toString('utf8'))?.[0];
  return version === undefined ? null : Buffer.from(`${version}\n`);
}

/** `ip kube-proxy`, one a line, in the order of creation. */
function tableNames(outputs: readonly Buffer[]): Buffer {
  const names = Buffer.concat(outputs)
    .toString('utf8')
    .matchAll(/^table (\S+ .+) \{$/gm);
  return Buffer.from([...names].map(([, name = '']) => `${name}\n`).join(''));
}

function nftTable(family: string, name: string): readonly string[] {
  return ['nft', '-j', 'list', 'table', family, name];
}

/**
 * All tables in the order of creation, as `nft -j list ruleset` prints them. Of those that iptables-save shows, only that they exist: to
 * list the rules of iptables-nft once more would take long. Null if the names are not known.
 */
async function readNftTables(read: ReadonlyMap<string, Buffer>, run: Run, lacks: (reason: string) => void): Promise<Buffer | null> {
  const names = read.get('nft-tables')?.toString('utf8').split('\n').slice(0, -1);
  if (names === undefined) return null;
  // Commands that read a bundle load this file, and not the package.
  const {default: pLimit} = await import('p-limit');
  const limit = pLimit(parallel);
  const tables = names.map(async line => {
    const [family = '', name = ''] = line.split(/ (.*)/);
    const declared = {table: {family, name}};
    if (isShownByIptables(read, family, name)) return {declared, document: null};
    try {
      return {declared, document: await limit(run, nftTable(family, name))};
    } catch (error) {
      if (!(error instanceof CommandFailed) || error.exitCode === null) throw error;
      // It was deleted since then.
      if (error.stderr.includes('No such file or directory')) return null;
      if (name === 'kube-proxy') throw error;
      lacks(`a table of ${family}: ${error.message}`);
      return null;
    }
  });
  const found = (await Promise.all(tables)).filter(table => table !== null);
  const declarations = Buffer.from(JSON.stringify({nftables: found.map(({declared}) => declared)}));
  return joinNft([declarations, ...found.flatMap(({document}) => document ?? [])]);
}

/** Iptables-nft writes tables of these names. A comment says where it understands only a part of one, or nothing. */
function isShownByIptables(read: ReadonlyMap<string, Buffer>, family: string, name: string): boolean {
  const tool = tools.find(name => name === {ip: 'iptables', ip6: 'ip6tables'}[family]);
  if (tool === undefined || !/^(?:raw|mangle|nat|filter|security)$/.test(name)) return false;
  return [`${tool}-save`, `${tool}-nft-save`].some(file => {
    if (file === `${tool}-save` && defaultBackend(tool, read) !== 'nft') return false;
    // All tables were read for it, and those that do nothing left out.
    if (beginningOf(read, file).includes(chainByChain)) return true;
    const at = read.get(file)?.indexOf(`\n*${name}\n`) ?? -1;
    return (
      at >= 0 &&
      !read
        .get(file)
        ?.toString('latin1', Math.max(0, at - 300), at)
        .includes(`# Table \`${name}' `)
    );
  });
}

/** Merges documents into one list, a truncated one last. They are not parsed, because they can be large. */
function joinNft(documents: readonly Buffer[]): Buffer {
  const [whole, truncated] = partition(documents, document => /\]\s*\}\s*$/.test(document.toString('latin1', document.length - 16)));
  const lists = whole.map(document => document.subarray(document.indexOf('[') + 1, document.lastIndexOf(']')));
  const rest = truncated[0]?.subarray(truncated[0].indexOf('[') + 1);
  const parts = [...lists.filter(({length}) => length > 0), ...(rest === undefined ? [] : [rest])];
  const separated = parts.flatMap((part, index) => (index === 0 ? [part] : [Buffer.from(', '), part]));
  return Buffer.concat([Buffer.from('{"nftables": ['), ...separated, Buffer.from(rest === undefined ? ']}\n' : '')]);
}
