import type {PacketAnswer} from '../../../src/judge/packet-query.ts';
import {hostPort} from '../../../src/trace/walk-packet.ts';
import {parseAddress} from '../../../src/model/address.ts';
import type {Fact, PlacedFlow} from './lab.ts';

/** Where packets end: `accept 10.244.11.4:8080`, `accept unchanged`, `reject`, `drop`, or what should not be. */
export type Fate = string;

export interface Expected {
  readonly probability: number;
  readonly masquerade: boolean;
}

/** What `packet` says, by fate. */
export function expectedFates({outcomes}: PacketAnswer): ReadonlyMap<Fate, Expected> {
  const fates = new Map<Fate, Expected>();
  for (const {verdict, destination, probability, masquerade, reason} of outcomes) {
    const accepted = verdict === 'accept';
    const fate = accepted ? `accept ${destination ?? 'unchanged'}` : reason === undefined ? verdict : `${verdict}: ${reason}`;
    const before = fates.get(fate);
    if (before !== undefined && accepted && before.masquerade !== masquerade) fates.set(`${fate} both masqueraded and not`, before);
    fates.set(fate, {probability: (before?.probability ?? 0) + probability, masquerade: accepted && masquerade});
  }
  return fates;
}

/** What the kernel did to one packet. */
export function fateOf(flow: PlacedFlow, {sight, connection}: Fact): Fate {
  if (connection === null) {
    if (sight === 'ECONNREFUSED') return 'reject';
    // A node's own packet that is dropped on its way out is an error to the sender.
    return sight === 'silent' || sight === 'EPERM' ? 'drop' : `failed: ${sight}`;
  }
  if (!['silent', 'connected', 'ECONNREFUSED'].includes(sight)) return `failed: ${sight}`;
  const {address, port} = connection.answersFrom;
  if (address === flow.destination && port === flow.port) return 'accept unchanged';
  const destination = parseAddress(address);
  return destination === null ? `accept ${address}` : `accept ${hostPort({destination, port})}`;
}

/**
 * Whether the kernel masqueraded packets that met one fate. Where the new source address is the old one, only the source port
 * can tell, and that for most packets, not for each: then the majority counts.
 */
export function masqueraded(pairs: readonly (readonly [PlacedFlow, Fact])[]): boolean | 'some' {
  const changes = pairs.flatMap(([flow, {connection}]) => (connection === null ? [] : [changeOf(flow, connection.answersTo)]));
  const sure = changes.filter(change => change !== 'port');
  if (sure.includes('address')) return sure.length === changes.length && !sure.includes('none') ? true : 'some';
  return changes.filter(change => change === 'port').length > changes.length / 2;
}

function changeOf(flow: PlacedFlow, {address, port}: {readonly address: string; readonly port: number}): 'address' | 'port' | 'none' {
  if (address !== flow.source) return 'address';
  return port === flow.sourcePort ? 'none' : 'port';
}
