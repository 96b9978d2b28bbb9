import {parseAddress} from '../model/address.ts';
import type {Rule, RuleText} from '../model/ruleset.ts';
import {joinHostPort, type RealServer, type VirtualServer} from '../model/virtual-server.ts';
import type {ChainResult} from './branch.ts';

/** A real server with its share of new connections, 0 to 1. */
interface RealShare {
  readonly real: RealServer;
  readonly share: number;
}

/** How a virtual server distributes new connections of many clients in the long run. Empty if no real server accepts connections. */
export function sharesOf({scheduler, realServers}: VirtualServer): readonly RealShare[] {
  const usable = realServers.filter(({weight}) => weight > 0);
  const chosen = failover.has(scheduler) ? heaviest(usable) : usable;
  const weightOf = ({weight}: RealServer): number => (blindToWeight.has(scheduler) || failover.has(scheduler) ? 1 : weight);
  const total = chosen.reduce((sum, real) => sum + weightOf(real), 0);
  return chosen.map(real => ({real, share: weightOf(real) / total}));
}

/** Schedulers for which only a weight of 0 matters. */
export const blindToWeight: ReadonlySet<string> = new Set(['rr', 'lc', 'dh']);

/** Schedulers that use only the real server with the highest weight, until it is full. */
const failover: ReadonlySet<string> = new Set(['fo', 'ovf']);

function heaviest(usable: readonly RealServer[]): readonly RealServer[] {
  return usable.toSorted((a, b) => b.weight - a.weight).slice(0, 1);
}

/**
 * Sends the packet of a branch to a real server. With another forwarding method than masquerading it keeps the virtual address, and a pod
 * drops it.
 */
export function sendTo<R extends RuleText>(real: RealServer, end: ChainResult<R>): ChainResult<R> {
  const destination = parseAddress(real.address);
  if (destination === null) return {...end, verdict: 'undecided', reason: `${real.hostPort} is no address`};
  if (real.forwarding !== 'masquerade') return {...end, verdict: 'drop'};
  const virtual = {destination: end.packet.destination, port: end.packet.port};
  return {...end, packet: {...end.packet, destination, port: real.port, rewritten: true, virtual}};
}

/** A virtual server as a step on the path of a packet. */
export function serverRule({address, port, line, text}: VirtualServer): Rule {
  return {table: 'ipvs', chain: joinHostPort(address, port), line, text, options: [], matches: [], target: null};
}

export function realServerRule(server: VirtualServer, {line, text}: RealServer): Rule {
  return {...serverRule(server), line, text};
}
