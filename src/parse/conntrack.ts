/** One connection of `conntrack -L` or `/proc/net/nf_conntrack`: the packet as it was sent, and its answer as it is awaited. */
export interface Connection {
  readonly protocol: string;
  readonly original: Tuple;
  readonly reply: Tuple;
  /** Line in the dump, from 1. */
  readonly line: number;
}

export interface Tuple {
  readonly source: string;
  readonly destination: string;
  readonly sourcePort: number;
  readonly destinationPort: number;
}

/** Reads the connections of one protocol. Lines that are none, and connections without ports, are passed over. */
export function* parseConntrack(text: string, protocol: string): Iterable<Connection> {
  const pattern = /src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+)/g;
  for (const [index, line] of text.split('\n').entries()) {
    if (!line.includes(`${protocol} `)) continue;
    const [original, reply] = [...line.matchAll(pattern)].map(toTuple);
    if (original !== undefined && reply !== undefined) yield {protocol, original, reply, line: index + 1};
  }
}

function toTuple([, source = '', destination = '', sourcePort, destinationPort]: RegExpMatchArray): Tuple {
  return {source, destination, sourcePort: Number(sourcePort), destinationPort: Number(destinationPort)};
}
