import {Buffer} from 'node:buffer';
import type {Backend} from '../../model/ruleset.ts';
import {kubeProxyPages} from './kube-proxy-pages.ts';
import type {NodeCommand, CommandVariant} from './node-command.ts';

/** Its version shows which backend the tools in use read. */
export const backendCommand: readonly string[] = ['iptables-save', '--version'];

export const versionCommand: NodeCommand = {file: 'iptables-version', variants: [{commands: [backendCommand], join: onlyVersionLine}]};

/** Those that a check reads: all with these names, so that those of each interface are among them. */
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
    file: 'nft.json',
    variants: [
      {
        commands: [
          ['nft', '-j', 'list', 'table', 'ip', 'kube-proxy'],
          ['nft', '-j', 'list', 'table', 'ip6', 'kube-proxy'],
        ],
        join: joinNft,
      },
    ],
  },
  {file: 'kube-proxy-version', variants: [{commands: [['kube-proxy', '--version']], join: onlyVersion}]},
  ...kubeProxyPages,
  {file: 'links.json', variants: [{commands: [['ip', '-d', '-j', 'link']]}]},
  // Both families. A router may have a million routes.
  {file: 'routes.json', variants: [{commands: [['ip', '-j', 'route', 'show', 'table', 'all']]}], maxBytes: 4_000_000},
  {file: 'ip-rules.json', variants: [{commands: [['ip', '-j', 'rule']]}], maxBytes: 1_000_000},
  {file: 'ip6-rules.json', variants: [{commands: [['ip', '-6', '-j', 'rule']]}], maxBytes: 1_000_000},
  connectionCounts('conntrack-stats'),
];

/** The dumps of the backend that the default tools do not read, by their version; none if that is not known. */
export function otherBackends(read: ReadonlyMap<string, Buffer>): readonly NodeCommand[] {
  return read.has('iptables-version') ? tools.flatMap(tool => backendsBut(tool, backendOf(textOf(read, 'iptables-version')))) : [];
}

/** Further reads, depending on the first results. */
export function furtherCommands(read: ReadonlyMap<string, Buffer>): readonly NodeCommand[] {
  const commands = tools.flatMap(tool => backendsBut(tool, defaultBackend(tool, read)));
  // Tables of other programs matter if kube-proxy uses nftables. Otherwise this would list all of iptables-nft once more, which takes long.
  if (holds(read, 'proxy-mode', 'nftables') || holds(read, 'nft.json', '"kube-proxy"'))
    commands.push({file: 'nft-ruleset.json', variants: [{commands: [['nft', '-j', 'list', 'ruleset']]}]});
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
  // Counts since the node was booted: what grows while it is read is lost now.
  if (read.has('conntrack-stats')) commands.push(connectionCounts('conntrack-stats-after'));
  if (hasIpvs || hasSets) commands.push({file: 'ipset-save', variants: [{commands: [['ipset', 'save']]}]});
  return commands;
}

const tools = ['iptables', 'ip6tables'] as const;
type Tool = (typeof tools)[number];

/** The backend that the default tool reads; null if that is not known, or nothing was read with it. */
function defaultBackend(tool: Tool, read: ReadonlyMap<string, Buffer>): Backend | null {
  const header = textOf(read, `${tool}-save`);
  const said = header === '' ? textOf(read, 'iptables-version') : header;
  return read.has(`${tool}-save`) && said !== '' ? backendOf(said) : null;
}

function backendOf(said: string): Backend {
  return said.includes('nf_tables') ? 'nft' : 'legacy';
}

/** The beginning of a file; empty if it was not read. */
function textOf(read: ReadonlyMap<string, Buffer>, file: string): string {
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
  return holds(read, 'iptables-save', text) || holds(read, 'ip6tables-save', text);
}

/**
 * The files behind `sysctls`, which `grep` prints with their names. It fails where an interface disappears meanwhile, and that of busybox knows
 * no `--include`.
 */
function sysctlVariants(): readonly CommandVariant[] {
  const included = [...new Set<string>(Object.values(sysctls).flat())].map(name => `--include=${name}`);
  const names = Object.entries(sysctls).flatMap(([folder, own]) => own.map(name => `${folder}.${name}`));
  return [
    {commands: [['grep', '-rsH', '', '/proc/sys/net', ...included, '--exclude-dir=neigh']], join: asSysctls, keepsPart: true},
    {commands: [['sysctl', '-e', ...names]]},
  ];
}

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

/** Merges two documents: the second goes into the list of the first. Not parsed, because it can be large. */
function joinNft([first = Buffer.alloc(0), second]: readonly Buffer[]): Buffer {
  if (second === undefined) return first;
  return Buffer.concat([first.subarray(0, first.lastIndexOf(']')), Buffer.from(', '), second.subarray(second.indexOf('[') + 1)]);
}
