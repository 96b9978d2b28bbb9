import {parseAddress} from '../model/address.ts';
import type {Rule, RuleText} from '../model/ruleset.ts';
import {joinHostPort, type RealServer, type VirtualServer} from '../model/virtual-server.ts';
import type {ChainResult} from './branch.ts';

/** A real server with the part of new connections, 0 to 1, that it gets. */
interface RealShare {
  readonly real: RealServer;
  readonly share: number;
}

/** How a virtual server spreads new connections of many clients in the long run. Empty when no real server takes any. */
export function sharesOf({scheduler, realServers}: VirtualServer): readonly RealShare[] {
  const usable = realServers.filter(({weight}) => weight > 0);
  const chosen = failover.has(scheduler) ? heaviest(usable) : usable;
  const weightOf = ({weight}: RealServer): number => (blindToWeight.has(scheduler) || failover.has(scheduler) ? 1 : weight);
  const total = chosen.reduce((sum, real) => sum + weightOf(real), 0);
  return chosen.map(real => ({real, share: weightOf(real) / total}));
}

/** Schedulers that ask of a weight only whether it is 0. */
export const blindToWeight: ReadonlySet<string> = new Set(['rr', 'lc', 'dh']);

/** Schedulers that use the heaviest real server alone, until it is full. */
const failover: ReadonlySet<string> = new Set(['fo', 'ovf']);

function heaviest(usable: readonly RealServer[]): readonly RealServer[] {
  return usable.toSorted((a, b) => b.weight - a.weight).slice(0, 1);
}

/** Addresses the packet of a branch to a real server. Forwarded in another way than by masquerading, it still bears the virtual address: a pod drops it. */
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
