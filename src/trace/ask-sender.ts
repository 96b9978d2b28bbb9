import {holds, type Intervals, intervalsOf, subtract} from '../model/intervals.ts';
import type {Environment, Packet} from './packet.ts';
import {allAddresses, allPorts} from './sender-space.ts';

type Side = 'source' | 'destination';

/** Notes that the path depends on whether the address of one side is one of these, if that is the client's. */
export function askAddress(values: Iterable<readonly [bigint, bigint]>, side: Side, packet: Packet, {sender}: Environment): void {
  if (sender === undefined || packet.client !== side) return;
  const inside = intervalsOf(values);
  sender.ask('address', holds(inside, packet[side].value) ? inside : subtract(allAddresses(packet.family), inside));
}

export function askPort(values: Iterable<readonly [bigint, bigint]>, side: Side, packet: Packet, {sender}: Environment): void {
  const port = side === 'source' ? packet.sourcePort : packet.port;
  if (sender === undefined || packet.client !== side || port === undefined) return;
  const inside = intervalsOf(values);
  sender.ask('port', holds(inside, BigInt(port)) ? inside : subtract(allPorts, inside));
}

/** The interface of the client's side follows from its address. */
export function askInterface(pattern: string, side: Side, packet: Packet, environment: Environment): void {
  if (environment.sender === undefined || packet.client !== side || packet.origin === 'node') return;
  const behind = environment.behind?.(pattern, packet.family) ?? null;
  if (behind !== null) askAddress(behind, side, packet, environment);
}

export function askLocal(side: Side, packet: Packet, environment: Environment): void {
  const own: Intervals | undefined = environment.localAddresses?.(packet.family);
  if (own !== undefined) askAddress(own, side, packet, environment);
}
