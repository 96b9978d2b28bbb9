import {canonicalAddress, familyOf} from '../../model/address.ts';
import type {StrayLine} from '../../model/ruleset.ts';
import type {Protocol} from '../../model/service-port.ts';
import {joinHostPort, type RealServer, type VirtualServer} from '../../model/virtual-server.ts';
import {splitHostPort} from '../iptables/comparable-rule.ts';
import {truncatedLine} from '../truncated-line.ts';

/** What one run of `ipvsadm-save -n`, `ipvsadm -S -n` or `ipvsadm -L -n` printed. */
interface VirtualServerDump {
  readonly servers: readonly VirtualServer[];
  /** Lines that name a server and could not be read, such as those of a run without `-n`. */
  readonly strays: readonly StrayLine[];
  /** The last line when it is torn off; it is not read. */
  readonly cut: number | null;
}

/** Reads the virtual servers of both families. Servers of firewall marks have no address and are passed over. */
export function parseIpvsadm(text: string): VirtualServerDump {
  const cut = truncatedLine(text);
  const servers: OpenServer[] = [];
  const strays: StrayLine[] = [];
  const byPlace = new Map<string, OpenServer>();
  let current: OpenServer | null = null;
  for (const [index, raw] of text.split('\n').entries()) {
    const line = index + 1;
    const read = line === cut ? nothing : readLine(raw, line);
    if (read.kind === 'stray') strays.push({line, text: raw.trim()});
    if (read.kind === 'mark') current = null;
    if (read.kind === 'server') {
      current = read.server;
      servers.push(current);
      byPlace.set(read.place, current);
    }
    if (read.kind === 'real') {
      const owner = read.place === null ? current : byPlace.get(read.place);
      if (owner === undefined || owner === null) continue;
      owner.realServers.push(read.real);
    }
  }
  return {servers, strays, cut};
}

interface OpenServer extends VirtualServer {
  readonly realServers: RealServer[];
}

type ReadLine =
  | {readonly kind: 'nothing' | 'stray' | 'mark'}
  | {readonly kind: 'server'; readonly server: OpenServer; readonly place: string}
  /** `place` names its virtual server; null for the one printed last. */
  | {readonly kind: 'real'; readonly real: RealServer; readonly place: string | null};

const nothing: ReadLine = {kind: 'nothing'};
const stray: ReadLine = {kind: 'stray'};

function readLine(raw: string, line: number): ReadLine {
  const text = raw.trim();
  const words = text.split(/\s+/);
  if (words[0] === '-A' || words[0] === '-a') return readCommand(words, line, text);
  if (words[0] === '->') return words[1] === 'RemoteAddress:Port' ? nothing : readListedReal(words, line, text);
  if (words[0] === 'FWM') return {kind: 'mark'};
  return Object.hasOwn(listedProtocols, words[0] ?? '') ? readListedServer(words, line, text) : nothing;
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
  if (protocol === undefined || at === null) return stray;
  const place = `${protocol} ${joinHostPort(at.address, at.port)}`;
  if (words[0] === '-A') return {kind: 'server', place, server: openServer({protocol, at, flags: commandFlags(flags), line, text})};
  const to = hostPort(flags.get('-r') ?? flags.get('--real-server') ?? '');
  if (to === null) return stray;
  const forwarding = flags.has('-m') ? 'masquerade' : flags.has('-i') ? 'tunnel' : 'route';
  const upperThreshold = Number(flags.get('-x') ?? 0);
  return {kind: 'real', place, real: realServer(to, {forwarding, weight: Number(flags.get('-w') ?? 1), upperThreshold, line, text})};
}

interface ServerFlags {
  readonly scheduler: string;
  readonly flags: readonly string[];
  readonly persistence: number | null;
}

function commandFlags(given: ReadonlyMap<string, string>): ServerFlags {
  const value = (short: string, long: string): string | undefined => given.get(short) ?? given.get(long);
  const scheduler = value('-s', '--scheduler') ?? 'wlc';
  const own = value('-b', '--sched-flags')?.split(',') ?? [];
  const netmask = value('-M', '--netmask');
  const timeout = value('-p', '--persistent');
  return {
    scheduler,
    flags: [
      ...own.map(flag => schedulerFlag(scheduler, flag)),
      ...(given.has('-o') || given.has('--ops') ? ['ops'] : []),
      ...(netmask === undefined || isHostMask(netmask) ? [] : [`netmask ${netmask}`]),
    ],
    // Without a number it is the default of ipvsadm.
    persistence: timeout === undefined ? null : /^\d+$/.test(timeout) ? Number(timeout) : 300,
  };
}

/** Older ipvsadm number the flags of every scheduler but `sh`. */
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
  if (protocol === undefined || at === null) return stray;
  const scheduler = words[2] ?? '';
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

const listedForwarding: Readonly<Record<string, RealServer['forwarding']>> = {
  Masq: 'masquerade',
  Tunnel: 'tunnel',
  Route: 'route',
  Local: 'route',
};

/** `-> 10.244.1.2:8080  Masq  1  0  0`. */
function readListedReal(words: readonly string[], line: number, text: string): ReadLine {
  const to = hostPort(words[1] ?? '');
  const forwarding = listedForwarding[words[2] ?? ''];
  if (to === null || forwarding === undefined || !/^\d+$/.test(words[3] ?? '')) return stray;
  return {kind: 'real', place: null, real: realServer(to, {forwarding, weight: Number(words[3]), upperThreshold: 0, line, text})};
}

interface HostPort {
  readonly address: string;
  readonly port: number;
}

/** Null for names, which ipvsadm prints without `-n`. */
function hostPort(text: string): HostPort | null {
  const {address, port} = splitHostPort(text);
  const canonical = canonicalAddress(address);
  return canonical === null || !/^\d+$/.test(port) ? null : {address: canonical, port: Number(port)};
}

interface ReadServer {
  readonly protocol: Protocol;
  readonly at: HostPort;
  readonly flags: ServerFlags;
  readonly line: number;
  readonly text: string;
}

function openServer({protocol, at, flags, line, text}: ReadServer): OpenServer {
  return {family: familyOf(at.address) ?? 'IPv4', protocol, ...at, ...flags, realServers: [], line, text};
}

function realServer(to: HostPort, rest: Omit<RealServer, 'address' | 'port' | 'hostPort'>): RealServer {
  return {...to, hostPort: joinHostPort(to.address, to.port), ...rest};
}
