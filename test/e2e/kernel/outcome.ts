import {parseAddress, joinHostPort} from '../../../src/model/address.ts';
import type {Flow, Sight} from './agent.ts';
import type {Connection} from './connections.ts';

/** Where a packet ends: `accept 10.244.11.4:8080`, `accept unchanged`, `reject`, `drop`; `failed` when it could not be sent. */
export type PathOutcome = 'accept unchanged' | `accept ${string}` | 'reject' | 'drop' | `failed ${string}`;

export interface Evidence {
  readonly sight: Sight;
  readonly connection: Connection | null;
  /** The node's own addresses, at which it answers. */
  readonly onNode: ReadonlySet<string>;
}

/** What the kernel did to a packet. Nobody but a rule refuses one, see Lab. */
export function pathOutcomeOf(flow: Flow, {sight, connection, onNode}: Evidence): PathOutcome {
  if (sight === 'ECONNREFUSED') return 'reject';
  // A packet that a node drops on its own way out is an error to the sender.
  if (sight === 'EPERM') return 'drop';
  if (sight !== 'silent' && sight !== 'connected') return `failed ${sight}`;
  // Only the node answers. It cannot have translated what a rule excludes from connection tracking.
  if (connection === null) return sight === 'connected' ? 'accept unchanged' : 'drop';
  const {address, port} = connection.answersFrom;
  // What a node sends to itself is taken down when it leaves, and may still be dropped when it comes in.
  if (onNode.has(address) && flow.protocol === 'tcp' && sight === 'silent') return 'drop';
  return address === flow.destination && port === flow.port ? 'accept unchanged' : `accept ${endpoint(address, port)}`;
}

function endpoint(address: string, port: number): string {
  const destination = parseAddress(address);
  return destination === null ? address : joinHostPort(destination.text, port);
}

export interface Translated {
  readonly flow: Flow;
  readonly connection: Connection | null;
}

/**
 * Whether the kernel masqueraded packets with one outcome. Where the new source address is the old one only the source port can
 * tell, and that for nearly every packet, not for each: there the majority counts.
 */
export function isMasqueraded(packets: readonly Translated[]): boolean | 'in part' {
  const changes = packets.flatMap(({flow, connection}) => (connection === null ? [] : [change(flow, connection)]));
  if (changes.includes('address')) return changes.every(kind => kind === 'address') ? true : 'in part';
  return changes.filter(kind => kind === 'port').length > changes.length / 2;
}

function change(flow: Flow, {answersTo}: Connection): 'address' | 'port' | 'none' {
  if (answersTo.address !== flow.source) return 'address';
  return answersTo.port === flow.sourcePort ? 'none' : 'port';
}
