import {canonicalAddress, familyOf, type Protocol, joinHostPort} from '../../model/address.ts';
import type {StrayLine} from '../../model/ruleset.ts';
import {type RealServer, serverKey, type VirtualServer} from '../../model/virtual-server.ts';
import {splitHostPort} from '../iptables/comparable-rule.ts';
import {portNumber} from '../iptables/iptables-list.ts';
import {truncatedLine} from '../lines.ts';

/** What `ipvsadm-save -n`, `ipvsadm -S -n` and `ipvsadm -L -n` printed, once or several times. */
interface VirtualServerDump {
  readonly servers: readonly VirtualServer[];
  /** Servers that only `--stats`, `--rate`, `--thresholds` or `--persistent-conn` lists: these do not show how a server forwards. */
  readonly unweighted: readonly UnweightedServer[];
  /** Lines that name a server and could not be read, such as those of a run without `-n`. */
  readonly strays: readonly StrayServer[];
  /** The first line of a server that is there twice, with other real servers: the listings are of two nodes or two times. */
  readonly contradiction: number | null;
  /** The first line among the servers that ipvsadm did not print, such as the error of a connection: it may stand for servers. */
  readonly other: StrayLine | null;
  /** The last line when it is torn off; it is not read. */
  readonly truncation: number | null;
}

export interface StrayServer extends StrayLine {
  /** The line of the virtual server of a real server that could not be read, 0 if that is unknown; else `TCP web.example:http`. */
  readonly server: number | string;
}

/** A virtual server whose scheduler, weights and ways of forwarding are not known. */
export interface UnweightedServer extends Pick<VirtualServer, 'family' | 'protocol' | 'address' | 'port' | 'line' | 'text'> {
  readonly realServers: readonly UnweightedReal[];
}

type UnweightedReal = Pick<RealServer, 'hostPort' | 'line' | 'text'>;

/** Reads the virtual servers of both families. Servers of firewall marks have no address and are passed over. */
export function parseIpvsadm(content: string): VirtualServerDump {
  const truncation = truncatedLine(content);
  const all: OpenServer[] = [];
  const strays: StrayServer[] = [];
  let other: StrayLine | null = null;
  const byPlace = new Map<string, OpenServer>();
  let current: OpenServer | null = null;
  for (const [index, raw] of content.split('\n').entries()) {
    const line = index + 1;
    const read = line === truncation ? nothing : readLine(raw, line);
    if (read.kind === 'other' && all.length > 0) other ??= {line, text: raw.trim()};
    if (read.kind === 'stray') strays.push({line, text: raw.trim(), server: read.server});
    if (read.kind === 'strayReal') {
      const owner = read.place === null ? current : byPlace.get(read.place);
      strays.push({line, text: raw.trim(), server: owner?.line ?? 0});
    }
    // The real servers after it are its own, and not those of the virtual server before it.
    if (read.kind === 'mark' || read.kind === 'stray') current = null;
    if (read.kind === 'server') {
      current = read.server;
      all.push(current);
      byPlace.set(read.place, current);
    }
    if (read.kind === 'real') {
      const owner = read.place === null ? current : byPlace.get(read.place);
      if (owner === undefined || owner === null) continue;
      if ('weight' in read.real) owner.realServers.push(read.real);
      else owner.unweighted.push(read.real);
    }
  }
  return {...withoutRepeated(all), strays, other, truncation};
}

interface OpenServer extends VirtualServer {
  readonly realServers: RealServer[];
  readonly unweighted: UnweightedReal[];
}

/** Several listings of the same servers are one. What shows weights goes before what does not. */
function withoutRepeated(all: readonly OpenServer[]): Pick<VirtualServerDump, 'servers' | 'unweighted' | 'contradiction'> {
  const known = new Map<string, OpenServer>();
  let contradiction: number | null = null;
  for (const server of all.toSorted((a, b) => Number(isUnweighted(a)) - Number(isUnweighted(b)))) {
    const key = serverKey(server);
    const before = known.get(key);
    if (before === undefined) known.set(key, server);
    else if (realsOf(before) !== realsOf(server)) contradiction ??= server.line;
  }
  const inOrder = [...known.values()].toSorted((a, b) => a.line - b.line);
  return {
    servers: inOrder.filter(server => !isUnweighted(server)).map(({unweighted, ...server}) => server),
    unweighted: inOrder.filter(isUnweighted).map(({unweighted, ...server}) => ({...server, realServers: unweighted})),
    contradiction,
  };
}

function isUnweighted({scheduler, unweighted}: OpenServer): boolean {
  return scheduler === '' || unweighted.length > 0;
}

function realsOf({realServers, unweighted}: OpenServer): string {
  return [...realServers, ...unweighted]
    .map(({hostPort}) => hostPort)
    .sort()
    .join();
}

type ReadLine =
  | {readonly kind: 'nothing' | 'mark' | 'other'}
  | {readonly kind: 'stray'; readonly server: string}
  | {readonly kind: 'strayReal'; readonly place: string | null}
  | {readonly kind: 'server'; readonly server: OpenServer; readonly place: string}
  /** `place` names its virtual server; null for the one printed last. */
  | {readonly kind: 'real'; readonly real: RealServer | UnweightedReal; readonly place: string | null};

const nothing: ReadLine = {kind: 'nothing'};

function readLine(raw: string, line: number): ReadLine {
  const text = raw.trim();
  const words = text.split(/\s+/);
  if (words[0] === '-A' || words[0] === '-a') return readCommand(words, line, text);
  if (words[0] === '->') return words[1] === 'RemoteAddress:Port' ? nothing : readListedReal(words, line, text);
  if (words[0] === 'FWM') return {kind: 'mark'};
  if (Object.hasOwn(listedProtocols, words[0] ?? '')) return readListedServer(words, line, text);
  return text === '' || /^(?:IP Virtual Server version|Prot LocalAddress:Port) /.test(text) ? nothing : {kind: 'other'};
}

const serviceFlags: Readonly<Record<string, Protocol>> = {
  '-t': 'TCP',
  '--tcp-service': 'TCP',
  '-u': 'UDP',
  '--udp-service': 'UDP',
  '--sctp-service': 'SCTP',
};

const listedProtocols: Readonly<Record<string, Protocol>> = {TCP: 'TCP', UDP: 'UDP', SCTP: 'SCTP'};

/** `-A -t 10.96.1.1:80 -s rr -p 600`, `-a -t 10.96.1.1:80 -r 10.244.1.2:8080 -m -w 1`. */
function readCommand(words: readonly string[], line: number, text: string): ReadLine {
  const flags = new Map<string, string>();
  for (const [index, word] of words.entries()) if (index > 0 && /^--?[a-zA-Z]/.test(word)) flags.set(word, words[index + 1] ?? '');
  if (flags.has('-f') || flags.has('--fwmark-service')) return {kind: 'mark'};
  const service = Object.keys(serviceFlags).find(flag => flags.has(flag)) ?? '';
  const protocol = serviceFlags[service];
  const at = hostPort(flags.get(service) ?? '');
  if (protocol === undefined || at === null) return {kind: 'stray', server: `${protocol ?? ''} ${flags.get(service) ?? ''}`.trim()};
  const place = `${protocol} ${joinHostPort(at.address, at.port)}`;
  if (words[0] === '-A') return {kind: 'server', place, server: openServer({protocol, at, flags: commandFlags(flags), line, text})};
  const to = hostPort(flags.get('-r') ?? flags.get('--real-server') ?? '');
  const [weight, upperThreshold] = [flags.get('-w') ?? '1', flags.get('-x') ?? '0'];
  if (to === null || !/^\d+ \d+$/.test(`${weight} ${upperThreshold}`)) return {kind: 'strayReal', place};
  const forwarding = flags.has('-m') ? 'masquerade' : flags.has('-i') ? 'tunnel' : 'route';
  const real = realServer(to, {forwarding, weight: Number(weight), upperThreshold: Number(upperThreshold), line, text});
  return {kind: 'real', place, real};
}

type ServerFlags = Pick<VirtualServer, 'scheduler' | 'flags' | 'persistence'>;

function commandFlags(options: ReadonlyMap<string, string>): ServerFlags {
  const value = (short: string, long: string): string | undefined => options.get(short) ?? options.get(long);
  const scheduler = value('-s', '--scheduler') ?? 'wlc';
  const own = value('-b', '--sched-flags')?.split(',') ?? [];
  const netmask = value('-M', '--netmask');
  const timeout = value('-p', '--persistent');
  return {
    scheduler,
    flags: [
      ...own.map(flag => schedulerFlag(scheduler, flag)),
      ...(options.has('-o') || options.has('--ops') ? ['ops'] : []),
      ...(netmask === undefined || isHostMask(netmask) ? [] : [`netmask ${netmask}`]),
    ],
    // Without a number it is ipvsadm's default.
    persistence: timeout === undefined ? null : /^\d+$/.test(timeout) ? Number(timeout) : 300,
  };
}

/** Older versions of ipvsadm number the flags of every scheduler except `sh`. */
function schedulerFlag(scheduler: string, flag: string): string {
  if (scheduler !== 'mh') return flag;
  return flag === 'flag-2' ? 'mh-port' : flag === 'flag-1' ? 'mh-fallback' : flag;
}

function isHostMask(netmask: string): boolean {
  return netmask === '255.255.255.255' || netmask === '128' || netmask === '32';
}

/** `TCP  10.96.1.1:80 rr persistent 600`, with flags of the scheduler in brackets. */
function readListedServer(words: readonly string[], line: number, text: string): ReadLine {
  const protocol = listedProtocols[words[0] ?? ''];
  const at = hostPort(words[1] ?? '');
  if (protocol === undefined || at === null) return {kind: 'stray', server: words.slice(0, 2).join(' ')};
  // In place of the scheduler `--stats` and `--rate` print how much passed.
  const scheduler = figure.test(words[2] ?? '') ? '' : (words[2] ?? '');
  const rest = words.slice(3);
  const after = (word: string): string | undefined => (rest.includes(word) ? rest[rest.indexOf(word) + 1] : undefined);
  const timeout = after('persistent');
  const netmask = after('mask');
  const own = /\(([^)]*)\)/.exec(text)?.[1]?.split(',') ?? [];
  const flags = [
    ...own.map(flag => schedulerFlag(scheduler, flag)),
    ...(rest.includes('ops') ? ['ops'] : []),
    ...(netmask === undefined || isHostMask(netmask) ? [] : [`netmask ${netmask}`]),
  ];
  const persistence = timeout === undefined ? null : Number(timeout);
  const place = `${protocol} ${joinHostPort(at.address, at.port)}`;
  return {kind: 'server', place, server: openServer({protocol, at, flags: {scheduler, flags, persistence}, line, text})};
}

/** `12`, or `12K` without `--exact`. */
const figure = /^\d+[KMGT]?$/;

const listedForwarding: Readonly<Record<string, RealServer['forwarding']>> = {
  Masq: 'masquerade',
  Tunnel: 'tunnel',
  Route: 'route',
  Local: 'route',
};

/** `-> 10.244.1.2:8080  Masq  1  0  0`; in listings without weights `-> 10.244.1.2:8080  12  345  300  45678  56789`. */
function readListedReal(words: readonly string[], line: number, text: string): ReadLine {
  const to = hostPort(words[1] ?? '');
  if (to !== null && words.length > 5 && words.slice(2).every(word => figure.test(word)))
    return {kind: 'real', place: null, real: {hostPort: joinHostPort(to.address, to.port), line, text}};
  const forwarding = listedForwarding[words[2] ?? ''];
  if (to === null || forwarding === undefined || !/^\d+$/.test(words[3] ?? '')) return {kind: 'strayReal', place: null};
  return {kind: 'real', place: null, real: realServer(to, {forwarding, weight: Number(words[3]), upperThreshold: 0, line, text})};
}

interface HostPort {
  readonly address: string;
  readonly port: number;
}

/** Null for names of hosts and unknown ones of ports, which ipvsadm prints without `-n`. */
export function hostPort(text: string): HostPort | null {
  const {address, port} = splitHostPort(text);
  const [canonical, number] = [canonicalAddress(address), portNumber(port)];
  return canonical === null || number === null ? null : {address: canonical, port: number};
}

interface ReadServer {
  readonly protocol: Protocol;
  readonly at: HostPort;
  readonly flags: ServerFlags;
  readonly line: number;
  readonly text: string;
}

function openServer({protocol, at, flags, line, text}: ReadServer): OpenServer {
  return {family: familyOf(at.address) ?? 'IPv4', protocol, ...at, ...flags, realServers: [], unweighted: [], line, text};
}

function realServer(to: HostPort, rest: Omit<RealServer, 'address' | 'port' | 'hostPort'>): RealServer {
  return {...to, hostPort: joinHostPort(to.address, to.port), ...rest};
}
