import {ciliumAgentTable} from '../../model/proxy-config.ts';
import {Buffer} from 'node:buffer';
import {kubeProxyLog} from '../../model/node/kube-proxy-failures.ts';
import {parseInterfaceSwitches, parseLinks} from '../../parse/network-facts.ts';
import {parseNodeAddresses} from '../../parse/ipvs/kube-ipvs0.ts';
import {parseHealthz, parseSyncMetrics} from '../../parse/kube-proxy/kube-proxy-state.ts';
import {kubeProxyPages} from './kube-proxy-pages.ts';
import {type CommandVariant, type NodeCommand, backendsBut, defaultBackend, markedParts, tools} from './node-command.ts';
import {nftNames, nftTables} from './nft-tables.ts';
import {append, partition} from '../../model/lists.ts';
import {canonicalAddress, joinHostPort} from '../../model/address.ts';

/** Its version shows which backend the tools in use read. */
export const backendCommand: readonly string[] = ['iptables-save', '--version'];

export const versionCommand: NodeCommand = {file: 'iptables-version', variants: [{commands: [backendCommand], join: onlyVersionLine}]};

/** Those that a check reads, the ones of each interface aside. */
const sysctls = {
  'net.ipv4': ['ip_forward', 'ip_default_ttl', 'ip_local_port_range', 'ip_local_reserved_ports'],
  'net.ipv4.conf.all': ['forwarding', 'rp_filter', 'route_localnet', 'arp_ignore', 'arp_announce'],
  'net.ipv4.vs': ['conn_reuse_mode', 'conntrack', 'expire_nodest_conn', 'expire_quiescent_template'],
  'net.ipv6.conf.all': ['forwarding'],
  'net.bridge': ['bridge-nf-call-iptables', 'bridge-nf-call-ip6tables'],
  'net.netfilter': ['nf_conntrack_count', 'nf_conntrack_max', 'nf_conntrack_tcp_be_liberal'],
} as const;

const sysctlNames = Object.entries(sysctls).flatMap(([folder, own]) => own.map(name => `${folder}.${name}`));
export const sysctlPaths: readonly string[] = sysctlNames.map(name => `/proc/sys/${name.replaceAll('.', '/')}`);

/** The kernel's list of virtual servers, and two settings in its ticks, like the timeouts of the list: one second, and five of them. */
export const serverPaths: readonly string[] = [
  '/proc/net/ip_vs',
  '/proc/sys/net/ipv4/route/error_cost',
  '/proc/sys/net/ipv4/route/error_burst',
];
export const serverLines = 'TCP|UDP|SCTP|FWM|  -> [^R]';

/** The first reads of each node besides `versionCommand`. Only argvs: there may be no shell. */
export const firstCommands: readonly NodeCommand[] = [
  {file: 'iptables-save', variants: [{commands: [['iptables-save']]}], isDump: true, isRequired: true},
  {file: 'ip6tables-save', variants: [{commands: [['ip6tables-save']]}], isDump: true, isRequired: true},
  {file: 'addresses.json', variants: [{commands: [['ip', '-j', 'addr']]}], maxBytes: 16_000_000},
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
  nftNames,
  {file: 'kube-proxy-version', variants: [{commands: [['kube-proxy', '--version']], join: onlyVersion}]},
  ...kubeProxyPages,
  {file: 'links.json', variants: [{commands: [['ip', '-d', '-j', 'link']]}], maxBytes: 16_000_000},
  // The switches of all interfaces, those of pods too. IPv6 forwards by the switch for all alone.
  {file: 'netconf.json', variants: [{commands: [['ip', '-j', '-4', 'netconf']]}], maxBytes: 1_000_000},
  // Both families. A router may have a million routes.
  {file: 'routes.json', variants: [{commands: [['ip', '-j', 'route', 'show', 'table', 'all']]}], maxBytes: 4_000_000},
  {file: 'ip-rules.json', variants: [{commands: [['ip', '-j', 'rule']]}], maxBytes: 1_000_000},
  {file: 'ip6-rules.json', variants: [{commands: [['ip', '-6', '-j', 'rule']]}], maxBytes: 1_000_000},
  connectionCounts('conntrack-stats'),
];

/** Further reads, depending on the first results. */
export function furtherCommands(read: ReadonlyMap<string, Buffer>): readonly NodeCommand[] {
  const commands = tools.flatMap(tool => backendsBut(tool, defaultBackend(tool, read)));
  commands.push(nftTables(read));
  const hasSets = dumpHolds(read, '--match-set');
  // The rules of IPVS mode match sets. To search a large dump twice takes as long as to read it.
  const hasIpvs =
    holds(read, 'addresses.json', '"kube-ipvs0"') ||
    holds(read, 'proxy-mode', 'ipvs') ||
    (hasSets && dumpHolds(read, 'KUBE-LOAD-BALANCER'));
  if (hasIpvs) {
    commands.push(virtualServers);
    commands.push({file: 'kube-ipvs0.json', variants: [{commands: [['ip', '-j', 'addr', 'show', 'dev', 'kube-ipvs0']]}]});
    if (!read.has('addresses.json')) commands.push(localAddresses);
  }
  const isListed = parseInterfaceSwitches(read.get('netconf.json')?.toString('utf8') ?? '') !== null;
  // kube-proxy turns it on in iptables mode. Where it is off, interfaces may have it on.
  const isLoopbackOff = holds(read, 'sysctls', 'net.ipv4.conf.all.route_localnet = 0') && dumpHolds(read, 'KUBE-SVC-');
  append(commands, interfaceSysctls(read.get('addresses.json'), {isListed, isLoopbackOff}));
  // Counts since the node was booted: what grows while it is read is lost now.
  if (read.has('conntrack-stats')) commands.push(connectionCounts('conntrack-stats-after'));
  if (hasIpvs || hasSets) commands.push({file: 'ipset-save', variants: [{commands: [['ipset', 'save']]}]});
  if (dumpHolds(read, '-m policy ') || dumpHolds(read, 'NFQUEUE') || holdsOtherTables(read)) commands.push(askedByRules);
  return commands;
}

/** Nodes often lack ipvsadm. */
const virtualServers: NodeCommand = {
  file: 'ipvsadm-save',
  variants: [
    {commands: [['ipvsadm-save', '-n']]},
    {commands: [['ipvsadm', '-S', '-n']]},
    {
      commands: [['grep', '-asHE', `^(${serverLines}|[0-9]+$)`, ...serverPaths]],
      keepsPart: true,
      join: outputs => {
        const servers = asVirtualServers(Buffer.concat(outputs).toString('latin1').split('\n'));
        if (servers === null) throw new Error(`ipvsadm not found, and ${serverPaths[0]} does not tell all of the virtual servers`);
        return servers;
      },
    },
  ],
};

/** kube-proxy's own image has no `ip`. The kernel lists an address of IPv4 below its network, without its interface. */
const localAddresses: NodeCommand = {
  file: 'local-addresses',
  maxBytes: 16_000_000,
  variants: [
    {
      commands: [['grep', '-ashE', '[|]-- |/32 host LOCAL|^[0-9a-f]{32} ', '/proc/net/fib_trie', '/proc/net/if_inet6']],
      keepsPart: true,
      join: outputs => asAddresses(Buffer.concat(outputs).toString('latin1')),
    },
  ],
};

/** One to a line. The kernel may show two tables, and an address in both. */
function asAddresses(text: string): Buffer {
  const found = new Set<string>();
  let leaf = '';
  for (const line of text.split('\n')) {
    const [, address, sixth] = /^ *[|]-- (\S+)|^([0-9a-f]{32}) /.exec(line) ?? [];
    if (address !== undefined) leaf = address;
    else if (sixth !== undefined) found.add(canonicalAddress(sixth.replace(/(....)(?!$)/g, '$1:')) ?? sixth);
    else if (line.endsWith('/32 host LOCAL')) found.add(leaf);
  }
  if (!found.has('127.0.0.1')) throw new Error('ip not found, and /proc/net/fib_trie does not tell the addresses of the node');
  return Buffer.from([...found].map(address => `${address}\n`).join(''));
}

/** What rules ask for beside addresses and interfaces: whether any packet is one of IPsec, and which queues programs read. */
const askedByRules: NodeCommand = {
  file: 'asked-by-rules',
  variants: [
    {
      commands: [
        ['ip', 'xfrm', 'state', 'count'],
        ['ip', 'xfrm', 'policy', 'count'],
        ['grep', '-rs', '', '/proc/net/netfilter'],
      ],
      join: outputs => asAnswers(Buffer.concat(outputs).toString('latin1')),
      keepsPart: true,
    },
  ],
};

/** In the form of sysctls. The file of queues is there once a program asked for one. */
function asAnswers(text: string): Buffer {
  const states = /^\s*SAD count (\d+)/m.exec(text)?.[1];
  const policies = /^\s*SPD IN +(\d+) OUT +(\d+) FWD +(\d+)/m.exec(text)?.slice(1);
  const queues = [...text.matchAll(/\/nfnetlink_queue: *(\d+)/g)].map(([, queue]) => queue);
  return Buffer.from(
    [
      ...(states === undefined ? [] : [`net.xfrm.states = ${states}\n`]),
      ...(policies === undefined ? [] : [`net.xfrm.policies = ${policies.reduce((sum, count) => sum + Number(count), 0)}\n`]),
      ...(text.includes('/proc/net/netfilter/') ? [`net.netfilter.queues = ${queues.join(',')}\n`] : []),
    ].join(''),
  );
}

/** Tables of nftables that neither iptables nor kube-proxy writes. */
function holdsOtherTables(read: ReadonlyMap<string, Buffer>): boolean {
  const names = read.get(nftNames.file)?.toString('utf8').split('\n') ?? [];
  return names.some(name => !/^(?:ip6? (?:raw|mangle|nat|filter|security|kube-proxy))?$/.test(name));
}

const journalUnits = ['kube-proxy', 'k3s', 'k3s-agent', 'snap.microk8s.daemon-kubelite', 'k0sworker'] as const;

/** The log where kube-proxy is no pod. K3s and others log everything in one. */
export const journal: NodeCommand = {
  file: kubeProxyLog,
  maxBytes: 1_000_000,
  variants: [{commands: [['journalctl', '-q', '--no-pager', '-o', 'cat', '-n', '1000', ...journalUnits.map(unit => `-u${unit}`)]]}],
};

/** Whether a node shows that its kube-proxy may have failed: none of its rules is there, or it says so itself. */
export function mayHaveFailed(read: ReadonlyMap<string, Buffer>): boolean {
  const hasRules =
    dumpHolds(read, 'KUBE-SVC-') ||
    dumpHolds(read, 'KUBE-CLUSTER-IP') ||
    holds(read, 'nft.json', 'service-ips') ||
    holds(read, 'nft-ruleset.json', 'service-ips');
  const {isPending, restoreFailures} = parseSyncMetrics(read.get('metrics')?.toString('utf8') ?? '');
  return !hasRules || restoreFailures > 0 || isPending || parseHealthz(read.get('healthz.json')?.toString('utf8') ?? '')?.healthy === false;
}

function holds(read: ReadonlyMap<string, Buffer>, file: string, text: string): boolean {
  return read.get(file)?.includes(text) ?? false;
}

function dumpHolds(read: ReadonlyMap<string, Buffer>, text: string): boolean {
  return [...read.keys()].some(file => /^ip6?tables.*-save$/.test(file) && holds(read, file, text));
}

/** The files behind `sysctls`, which `grep` prints with their names. It fails where one of them does not exist. */
function sysctlVariants(): readonly CommandVariant[] {
  return [grepSysctls(sysctlPaths), {commands: [['sysctl', '-e', ...sysctlNames]]}];
}

function grepSysctls(paths: readonly string[]): CommandVariant {
  return {commands: [['grep', '-sH', '', ...paths]], join: asSysctls, keepsPart: true};
}

/**
 * Those of each interface that `ip netconf` did not list, most of them without the interfaces that lead to pods: to search the folders of
 * hundreds takes most of a second. The interface of a node that is itself a container has its other end elsewhere too, and is known by its network.
 */
function interfaceSysctls(
  addresses: Buffer | undefined,
  {isListed, isLoopbackOff}: {readonly isListed: boolean; readonly isLoopbackOff: boolean},
): readonly NodeCommand[] {
  if (isListed && !isLoopbackOff) return [];
  const text = addresses?.toString('utf8') ?? '';
  const links = parseLinks(text) ?? [];
  const isNetwork = (network: string): boolean => /\.\d+\/(?!32$)/.test(network);
  const wired = new Set(parseNodeAddresses(text)?.flatMap(({name, networks}) => (networks.some(isNetwork) ? name : [])));
  const [own, ofPods] = partition(
    links.filter(({name}) => /^[\w.-]+$/.test(name) && !/^\.+$/.test(name)),
    ({name, isPeerElsewhere}) => !isPeerElsewhere || wired.has(name),
  );
  const listed = own.slice(0, maxInterfaces);
  const pathsOf = (names: readonly string[], of: readonly {readonly name: string}[]): readonly string[] =>
    of.flatMap(({name}) => names.map(each => `/proc/sys/net/ipv4/conf/${name}/${each}`));
  const paths = [
    ...(isListed ? [] : pathsOf(['rp_filter', 'forwarding'], listed)),
    ...(isLoopbackOff ? pathsOf(['route_localnet'], [...listed, ...ofPods.slice(0, maxPodInterfaces)]) : []),
  ];
  return paths.length === 0 ? [] : [{file: 'interface-sysctls', variants: [grepSysctls(paths)]}];
}

const [maxInterfaces, maxPodInterfaces] = [40, 256];

export function asSysctls(outputs: readonly Buffer[]): Buffer {
  const lines = Buffer.concat(outputs).toString('utf8');
  return Buffer.from(lines.replace(/^\/proc\/sys\/(.*?):/gm, (_, path: string) => `${path.replaceAll('/', '.')} = `));
}

/**
 * The kernel's list of virtual servers in the words of ipvsadm-save. Null if it is empty, or hides what ipvsadm shows: flags of schedulers,
 * netmasks, and timeouts in seconds where a tick is not known. Without firewall marks, which kube-proxy does not use.
 */
export function asVirtualServers(lines: readonly string[]): Buffer | null {
  const [own = [], ...settings] = serverPaths.map(path =>
    lines.flatMap(line => (line.startsWith(`${path}:`) ? [line.slice(path.length + 1)] : [])),
  );
  const [cost, burst] = settings.map(([value]) => Number(value));
  const ticks = cost !== undefined && burst === 5 * cost ? cost : Number.NaN;
  let server: string | null = null;
  const found: string[] = [];
  for (const line of own) {
    const [, protocol, at = '', scheduler = '', timeout] = listedServer.exec(line) ?? [];
    const [, to = '', way = '', weight] = /^ {2}-> +(\S+) +(Masq|Local|Route|Tunnel) +(\d+) /.exec(line) ?? [];
    if (line.startsWith('FWM')) server = null;
    else if (protocol !== undefined) {
      const seconds = Number(timeout ?? 0) / ticks;
      if (/^[ms]h$/.test(scheduler) || (timeout !== undefined && !Number.isInteger(seconds))) return null;
      server = `${{TCP: '-t', UDP: '-u'}[protocol] ?? '--sctp-service'} ${hostPortIn(at)}`;
      found.push(`-A ${server} -s ${scheduler}${timeout === undefined ? '' : ` -p ${seconds}`}\n`);
    } else if (weight === undefined) return null;
    else if (server !== null) found.push(`-a ${server} -r ${hostPortIn(to)} ${{Masq: '-m', Tunnel: '-i'}[way] ?? '-g'} -w ${weight}\n`);
  }
  return found.length === 0 ? null : Buffer.from(found.join(''));
}

const listedServer = /^(TCP|UDP|SCTP) +(\S+) (\S+) *(?:persistent (\d+) (?:F{8}|80000000|00000080))? *$/;

/** `0A600001:01BB` is 10.96.0.1:443. */
function hostPortIn(text: string): string {
  const [, address = '', port = ''] = /^\[?(.*?)\]?:(\w+)$/.exec(text) ?? [];
  const bytes = address.match(/../g)?.map(byte => Number.parseInt(byte, 16)) ?? [];
  return joinHostPort(address.includes(':') ? (canonicalAddress(address) ?? address) : bytes.join('.'), Number.parseInt(port, 16));
}

function connectionCounts(file: string): NodeCommand {
  return {file, variants: [{commands: [['conntrack', '-S']]}, {commands: [['cat', '/proc/net/stat/nf_conntrack']]}], maxBytes: 1_000_000};
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

/** A file of Cilium's tables in a bundle, and the arguments of `cilium-dbg` that print it. */
interface CiliumTable {
  readonly file: string;
  readonly args: readonly string[];
  /** The agent answers it by its socket; the others read the kernel's maps, and work while the agent hangs. */
  readonly asksAgent: boolean;
}

/** The map before the agent's table: what changes in between is then in the table at least. */
export const ciliumTables: readonly CiliumTable[] = [
  {file: 'version.json', args: ['version', '-o', 'json'], asksAgent: true},
  {file: 'status.json', args: ['status', '-o', 'json'], asksAgent: true},
  {file: 'db-show-node-addresses.txt', args: ['shell', '--', 'db/show', 'node-addresses'], asksAgent: true},
  {file: 'bpf-lb-list.json', args: ['bpf', 'lb', 'list', '-o', 'json'], asksAgent: false},
  {file: 'bpf-lb-list-frontends.json', args: ['bpf', 'lb', 'list', '--frontends', '-o', 'json'], asksAgent: false},
  {file: 'bpf-lb-list-revnat.json', args: ['bpf', 'lb', 'list', '--revnat', '-o', 'json'], asksAgent: false},
  {file: 'bpf-lb-list-source-ranges.json', args: ['bpf', 'lb', 'list', '--source-ranges', '-o', 'json'], asksAgent: false},
  {file: ciliumAgentTable, args: ['service', 'list', '-o', 'json'], asksAgent: true},
];

/** Up to 1.14 the program has the second name. */
export const ciliumPrograms = ['cilium-dbg', 'cilium'] as const;

/** Seconds that the agent may take to answer one command. */
const patience = 10;

/** Prints all tables in one exec. After an answer that does not come, the agent is asked nothing more. */
const script = [
  `c=${ciliumPrograms[0]}; command -v $c >/dev/null 2>&1 || c=${ciliumPrograms[1]}`,
  `t=; command -v timeout >/dev/null 2>&1 && t='timeout ${patience}'`,
  'h=; exec 3>&1',
  `mark() { printf '\\nsvc-trace %s %s %s %s\\n' "$1" "$2" "$c" "$(printf '%.400s' "$3" | tr '\\n' ' ')"; }`,
  'show() { f=$1; shift; e=$($t $c "$@" 2>&1 >&3 3>&-); s=$?; mark "$f" "$s" "$e"; }',
  'ask() { if [ -n "$h" ]; then mark "$1" 124; else show "$@"; case $s in 124|143) h=1;; esac; fi; }',
  ...ciliumTables.map(({file, args, asksAgent}) => `${asksAgent ? 'ask' : 'show'} ${[file, ...args].join(' ')}`),
  'exit 0',
].join('\n');

export const ciliumCommand: readonly string[] = ['sh', '-c', script];

/** What the script printed: each table, or why it is missing. Tables of which there is nothing, because the output ends before, are left out. */
export function splitCiliumTables(output: Buffer): ReadonlyMap<string, Buffer | {readonly reason: string}> {
  const found = markedParts(output, /\nsvc-trace (\S+) (\d+) (\S+) (.*)\n/g);
  return new Map(found.map(([body, mark]) => [mark[1] ?? '', mark[2] === '0' ? body : {reason: whyFailed(mark)}]));
}

function whyFailed({1: file, 2: code, 3: program = '', 4: said = ''}: RegExpExecArray): string {
  if (code === '124' || code === '143') return `the agent did not answer within ${patience} s`;
  if (code === '126' || code === '127') return `neither ${ciliumPrograms.join(' nor ')} is in its container`;
  const args = ciliumTables.find(table => table.file === file)?.args ?? [];
  return `${program} ${args.join(' ')} ended with exit code ${code}${said.trim() === '' ? '' : `: ${said.trim()}`}`;
}
