import {hostPort} from './ipvsadm-save.ts';
import {joinHostPort, type Protocol} from '../../model/address.ts';
import {serverKey} from '../../model/virtual-server.ts';

/** The counters of one real server of one virtual server. */
interface RealServerStats {
  /** New connections since the real server was added; null if the listing shows only open ones. */
  readonly connections: number | null;
  /** Open connections, active and inactive; null if the listing shows only totals. */
  readonly open: number | null;
  readonly closing: number | null;
}

/** By `serverKey` of the virtual server, then by `ip:port` of the real server. */
export type IpvsStats = ReadonlyMap<string, ReadonlyMap<string, RealServerStats>>;

/**
 * Reads `ipvsadm -Ln --stats --exact` and `ipvsadm -Ln`, which are told apart by their headings; a text with both gives both. Numbers
 * that were rounded count nothing. Other listings, such as `--rate`, are passed over.
 */
export function parseIpvsadmStats(text: string): IpvsStats {
  const servers = new Map<string, Map<string, RealServerStats>>();
  let current: Map<string, RealServerStats> | null = null;
  let read: ((words: readonly string[]) => RealServerStats | null) | null = connections;
  for (const line of text.split('\n')) {
    const words = line.trim().split(/\s+/);
    if (words[0] === 'Prot' && words[1] === 'LocalAddress:Port') read = columns[words[2] ?? ''] ?? null;
    const [first = '', second = ''] = words;
    if (first === 'FWM') current = null;
    else if (first in protocols) {
      const at = hostPort(second);
      const key = at === null ? null : serverKey({protocol: protocols[first] ?? 'TCP', ...at});
      current = key === null ? null : (servers.get(key) ?? new Map());
      if (key !== null && current !== null) servers.set(key, current);
    } else if (first === '->' && second !== 'RemoteAddress:Port' && current !== null && read !== null) {
      const at = hostPort(second);
      const stats = read(words);
      if (at !== null && stats !== null) addStats(current, joinHostPort(at.address, at.port), stats);
    }
  }
  return servers;
}

function addStats(server: Map<string, RealServerStats>, real: string, {connections: total, open, closing}: RealServerStats): void {
  const before = server.get(real);
  server.set(real, {
    connections: total ?? before?.connections ?? null,
    open: open ?? before?.open ?? null,
    closing: closing ?? before?.closing ?? null,
  });
}

const protocols: Readonly<Record<string, Protocol>> = {TCP: 'TCP', UDP: 'UDP', SCTP: 'SCTP'};

/** `-> 10.244.1.2:8080  12  345  300  45678  56789`: connections first. */
function totals(words: readonly string[]): RealServerStats | null {
  const count = words[2] ?? '';
  return /^\d+$/.test(count) ? {connections: Number(count), open: null, closing: null} : null;
}

/** `-> 10.244.1.2:8080  Masq  1  3  2`: forwarding, weight, active and inactive connections. */
function connections(words: readonly string[]): RealServerStats | null {
  const [, , forwarding = '', , active = '', inactive = ''] = words;
  return /^[A-Z]/.test(forwarding) && /^\d+$/.test(active) && /^\d+$/.test(inactive)
    ? {connections: null, open: Number(active), closing: Number(inactive)}
    : null;
}

/** By the third word of the headings. */
const columns: Readonly<Record<string, typeof totals>> = {Conns: totals, Scheduler: connections};
