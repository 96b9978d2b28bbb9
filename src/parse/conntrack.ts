import {canonicalAddress, joinHostPort} from '../model/address.ts';
import {byWord} from '../model/lists.ts';
import {detached, LineSplitter, linesOf} from './lines.ts';

/** One connection of `conntrack -L` or `/proc/net/nf_conntrack`: the packet as it was sent, and the reply that conntrack expects. */
export interface TrackedConnection {
  readonly protocol: string;
  readonly original: Tuple;
  readonly reply: Tuple;
  /** Of TCP, such as `ESTABLISHED`; null otherwise. */
  readonly state: string | null;
  /** Seconds until the entry is deleted, unless a packet comes. */
  readonly expiresIn: number;
  /** Seconds since the first packet, where the kernel notes it (nf_conntrack_timestamp). */
  readonly age: number | null;
  readonly isAnswered: boolean;
  /** Line in the dump, from 1. */
  readonly line: number;
}

interface Tuple {
  readonly source: string;
  readonly destination: string;
  readonly sourcePort: number;
  readonly destinationPort: number;
}

/**
 * Reads the connections of one protocol in conntrack's default zone, the only one that kube-proxy's rules see. Skips lines that are no
 * connection, and connections without ports.
 */
export function* parseConntrack(text: string, protocol: string): Iterable<TrackedConnection> {
  const pattern = /src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+)/g;
  const start = new RegExp(`^(?:ipv[46]\\s+\\d+\\s+)?${protocol}\\s`);
  let number = 0;
  for (const line of linesOf(text)) {
    number++;
    if (!start.test(line) || otherZone.test(line)) continue;
    const [original, reply] = [...line.matchAll(pattern)].map(toTuple);
    if (original === undefined || reply === undefined) continue;
    const [, expiresIn = '0', state = null] = /^[^=]*? (\d+) (?:([A-Z_]+\d?) )?src=/.exec(line) ?? [];
    const age = / delta-time=(\d+)/.exec(line)?.[1];
    const isAnswered = !line.includes('[UNREPLIED]');
    yield {
      protocol,
      original,
      reply,
      state,
      expiresIn: Number(expiresIn),
      age: age === undefined ? null : Number(age),
      isAnswered,
      line: number,
    };
  }
}

const otherZone = / zone(?:-orig|-reply)?=[1-9]/;

function toTuple([, source = '', destination = '', sourcePort, destinationPort]: RegExpMatchArray): Tuple {
  return {source, destination, sourcePort: Number(sourcePort), destinationPort: Number(destinationPort)};
}

/** Tracked connections of one Service port, by the endpoint that answers them. */
interface PortConnections {
  readonly endpoints: ReadonlyMap<string, EndpointConnections>;
  /** How many addresses the connections come from; `maxClients` means that many or more. */
  readonly clients: number;
}

export interface EndpointConnections {
  /** TCP and SCTP: the handshake is not complete. */
  readonly opening: number;
  /** TCP and SCTP connections that are established, and UDP flows. */
  readonly open: number;
  /** TCP and SCTP: one end has closed; the kernel keeps the entry for a while. */
  readonly closing: number;
  /** Some of the addresses that connections come from; `maxNamedClients` means that many or more. */
  readonly clients: readonly string[];
  /** Seconds since the first packet of the oldest one, where the kernel notes it; null otherwise. */
  readonly oldest: number | null;
  /** A sorted number for each connection, which identifies it in another read; null if not requested. */
  readonly identities: Float64Array | null;
}

/** By the key of the Service port. */
export type ConntrackCounts = ReadonlyMap<string, PortConnections>;

export interface ConntrackOptions {
  /** The Service port of an original destination, by `conntrackKey`. */
  readonly ports: ReadonlyMap<string, string>;
  /** Store an identity of each connection, 8 bytes for each of these Services. */
  readonly identify: boolean;
}

export const maxClients = 64;

export const maxNamedClients = 4;

/** The lookup key of a connection: `tcp 10.96.0.1 443`. */
export function conntrackKey(protocol: string, address: string, port: number | string): string {
  return `${protocol.toLowerCase()} ${address} ${port}`;
}

/**
 * Counts the connections of `conntrack -L` and `/proc/net/nf_conntrack` while they are read, by original destination and by replying
 * endpoint. Keeps no entry, so that a table of a million needs no more memory than one of ten.
 */
export class ConntrackCounter {
  readonly #options: ConntrackOptions;
  readonly #ports = new Map<string, ConnectionSets>();
  readonly #lines = new LineSplitter(line => this.#take(line));
  #hasTimes: boolean | null = null;

  constructor(options: ConntrackOptions) {
    this.#options = options;
  }

  add(part: Buffer): void {
    this.#lines.add(part);
  }

  result(): ConntrackCounts {
    this.#lines.end();
    return new Map(
      [...this.#ports].map(([key, {endpoints, clients}]): [string, PortConnections] => [
        key,
        {
          endpoints: new Map(
            [...endpoints].map(([name, {identities, ...counts}]) => [name, {...counts, identities: identities?.sorted() ?? null}]),
          ),
          clients: clients.size,
        },
      ]),
    );
  }

  #take(line: string): void {
    const original = line.indexOf('src=');
    if (original < 0) return;
    const protocol = protocolOf(line);
    const destination = valueAt(line, 'dst=', original);
    const key = conntrackKey(protocol, destination, valueAt(line, 'dport=', original));
    const port = this.#options.ports.get(key);
    if (port !== undefined) this.#count(port, {line, protocol, original, destination});
  }

  #count(key: string, {line, protocol, original, destination}: ConntrackEntry): void {
    const reply = line.indexOf('src=', original + 4);
    const answers = reply < 0 ? '' : valueAt(line, 'src=', reply);
    const from = valueAt(line, 'sport=', reply);
    const stage = stageOf(line, protocol);
    if (answers === '' || !/^\d+$/.test(from) || stage === null) return;
    const port = this.#port(key);
    const client = valueAt(line, 'src=', original);
    if (port.clients.size < maxClients) port.clients.add(detached(client));
    // Not translated: replies are expected from the Service's own address.
    if (answers === destination) return;
    const counts = this.#endpoint(port, joinHostPort(canonicalAddress(answers) ?? answers, Number(from)));
    counts[stage]++;
    counts.identities?.push(identityOf(line, original));
    if (stage !== 'open') return;
    if (counts.clients.length < maxNamedClients && !counts.clients.includes(client)) counts.clients.push(detached(client));
    // The kernel notes the time of all connections, or of none.
    this.#hasTimes ??= line.includes(' delta-time=');
    const age = this.#hasTimes ? Number(valueAt(line, 'delta-time=', original)) : 0;
    if (age > (counts.oldest ?? 0)) counts.oldest = age;
  }

  #endpoint({endpoints}: ConnectionSets, name: string): EndpointSets {
    const known = endpoints.get(name);
    if (known !== undefined) return known;
    const identities = this.#options.identify ? new NumberList() : null;
    const counts = {opening: 0, open: 0, closing: 0, clients: [], oldest: null, identities};
    endpoints.set(detached(name), counts);
    return counts;
  }

  #port(key: string): ConnectionSets {
    const known = this.#ports.get(key);
    if (known !== undefined) return known;
    const port: ConnectionSets = {endpoints: new Map(), clients: new Set()};
    this.#ports.set(key, port);
    return port;
  }
}

interface ConnectionSets {
  readonly endpoints: Map<string, EndpointSets>;
  readonly clients: Set<string>;
}

interface EndpointSets {
  opening: number;
  open: number;
  closing: number;
  readonly clients: string[];
  oldest: number | null;
  readonly identities: NumberList | null;
}

interface ConntrackEntry {
  readonly line: string;
  readonly protocol: string;
  readonly original: number;
  readonly destination: string;
}

type Stage = 'opening' | 'open' | 'closing';

/** `tcp      6 …`, and in /proc `ipv4     2 tcp      6 …`. */
function protocolOf(line: string): string {
  const match = /^(?:ipv[46]\s+\d+\s+)?([a-z]+)/.exec(line);
  return match?.[1] ?? '';
}

function valueAt(line: string, name: string, from: number): string {
  const start = line.indexOf(name, Math.max(from, 0));
  if (from < 0 || start < 0) return '';
  const end = line.indexOf(' ', start);
  return line.slice(start + name.length, end < 0 ? line.length : end);
}

/** Null for an unknown state. A flow that the kernel has offloaded is printed without a state, and is established. */
function stageOf(line: string, protocol: string): Stage | null {
  if (protocol !== 'tcp' && protocol !== 'sctp') return 'open';
  const state = /\s\d+\s+\d+\s+([A-Z_0-9]+)\s/.exec(line.slice(0, line.indexOf('src=')))?.[1];
  if (state === undefined) return /\[(?:HW_)?OFFLOAD\]/.test(line) ? 'open' : null;
  return stages[state] ?? null;
}

const stages = byWord<Stage>(
  ['SYN_SENT SYN_SENT2 SYN_RECV LISTEN NONE COOKIE_WAIT COOKIE_ECHOED HEARTBEAT_SENT', 'opening'],
  ['ESTABLISHED HEARTBEAT_ACKED DATA_SENT', 'open'],
  ['FIN_WAIT CLOSE_WAIT LAST_ACK TIME_WAIT CLOSE CLOSED SHUTDOWN_SENT SHUTDOWN_RECD SHUTDOWN_ACK_SENT', 'closing'],
);

/** The kernel's own number of a connection, or a hash of its addresses and ports. */
function identityOf(line: string, original: number): number {
  const id = / id=(\d+)/.exec(line)?.[1];
  return id === undefined
    ? hash(line.slice(original).replace(/\[[A-Z_]+\]|\b(?:packets|bytes|delta-time|mark|use|secctx|zone)=\S+/g, ''))
    : Number(id);
}

/** 53 bits of two FNV-1a hashes. */
function hash(text: string): number {
  let low = 0x811c9dc5;
  let high = 0x01000193;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 32) continue;
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ code, 0x85ebca6b);
  }
  return (high >>> 11) * 2 ** 32 + (low >>> 0);
}

/** A growing list of numbers, 8 bytes each. */
class NumberList {
  #values = new Float64Array(16);
  #length = 0;

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const grown = new Float64Array(this.#length * 2);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values[this.#length++] = value;
  }

  sorted(): Float64Array {
    return this.#values.slice(0, this.#length).sort();
  }
}
