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
  for (const [index, line] of text.split('\n').entries()) {
    if (!start.test(line) || otherZone.test(line)) continue;
    const [original, reply] = [...line.matchAll(pattern)].map(toTuple);
    if (original === undefined || reply === undefined) continue;
    const [, expiresIn = '0', state = null] = /^[^=]*? (\d+) (?:([A-Z_]+\d?) )?src=/.exec(line) ?? [];
    const age = / delta-time=(\d+)/.exec(line)?.[1];
    yield {protocol, original, reply, state, expiresIn: Number(expiresIn), age: age === undefined ? null : Number(age), line: index + 1};
  }
}

const otherZone = / zone(?:-orig|-reply)?=[1-9]/;

function toTuple([, source = '', destination = '', sourcePort, destinationPort]: RegExpMatchArray): Tuple {
  return {source, destination, sourcePort: Number(sourcePort), destinationPort: Number(destinationPort)};
}
