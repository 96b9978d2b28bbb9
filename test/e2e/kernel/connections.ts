import {canonicalAddress} from '../../../src/model/address.ts';
import type {Flow} from './agent.ts';
import type {Namespace} from './namespace.ts';

/** A node's conntrack entry of a connection: where its replies come from and where they go. */
export interface Connection {
  /** The endpoint. */
  readonly answersFrom: {readonly address: string; readonly port: number};
  /** The source after masquerading. */
  readonly answersTo: {readonly address: string; readonly port: number};
}

/** All connections that the node knows, by `flowKey` of their first packet. */
export function readConnections(node: Namespace): ReadonlyMap<string, Connection> {
  const lines = ['ipv4', 'ipv6'].flatMap(family => node.run('conntrack', ['-L', '-f', family]).split('\n'));
  return new Map(lines.flatMap(readConnection));
}

/** `tcp 6 119 SYN_SENT src=A dst=B sport=1 dport=2 [UNREPLIED] src=C dst=A sport=3 dport=1 mark=0 use=1` */
function readConnection(line: string): readonly (readonly [string, Connection])[] {
  const protocol = /^(?:tcp|udp)\b/.exec(line)?.[0];
  const [asked, answered] = [...line.matchAll(/src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+)/g)].map(
    ([, source = '', destination = '', sourcePort, port]) => ({
      ...{source: canonicalAddress(source) ?? source, destination: canonicalAddress(destination) ?? destination},
      ...{sourcePort: Number(sourcePort), port: Number(port)},
    }),
  );
  if ((protocol !== 'tcp' && protocol !== 'udp') || asked === undefined || answered === undefined) return [];
  const connection = {
    answersFrom: {address: answered.source, port: answered.sourcePort},
    answersTo: {address: answered.destination, port: answered.port},
  };
  return [[flowKey({protocol, ...asked}), connection]];
}

export function flowKey({protocol, source, sourcePort, destination, port}: Flow): string {
  return `${protocol} ${source} ${sourcePort} ${destination} ${port}`;
}
