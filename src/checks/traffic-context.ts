import type {PortEntry} from '../expect/cluster/cluster-view.ts';
import {type EndpointConnections, maxNamedClients} from '../parse/conntrack.ts';
import type {CellTraffic} from '../model/traffic/traffic-report.ts';

/** The counters of one Service port on one node. */
export interface TrafficContext {
  readonly node: string;
  readonly entry: PortEntry;
  /** By `ip:port`. */
  readonly cells: ReadonlyMap<string, CellTraffic>;
  /** Tracked connections by `ip:port` of the endpoint; null if conntrack was not read. */
  readonly tracked: ReadonlyMap<string, Pick<EndpointConnections, 'clients' | 'oldest'>> | null;
  /** How many addresses the tracked connections come from, up to `maxClients`; null if conntrack was not read. */
  readonly clients: number | null;
  /** Each new connection is assigned to an endpoint at random, independently of earlier ones. */
  readonly isRandom: boolean;
}

/** `; from 10.244.1.7, the oldest for 320 s`, or nothing if it is not known. */
export function fromWhom({tracked}: Pick<TrafficContext, 'tracked'>, hostPort: string): string {
  const known = tracked?.get(hostPort);
  if (known === undefined || known.clients.length === 0) return '';
  const {clients, oldest} = known;
  const named = clients.length < maxNamedClients ? clients.join(', ') : `${clients.slice(0, maxNamedClients - 1).join(', ')} and others`;
  return `; from ${named}${oldest === null ? '' : `, the oldest for ${oldest} s`}`;
}

/** All new connections of the port on the node; null if not all were measured. */
export function countNewConnections(cells: TrafficContext['cells']): number | null {
  let all = 0;
  for (const {newConnections: own} of cells.values()) {
    if (own === null) return null;
    all += own;
  }
  return all;
}

/** A probability of one in a million, as a power of ten. It is low because many endpoints on many nodes are checked repeatedly. */
export const rareExponent = -6;

/** The probability of 10 to this power, as text. */
export function oddsText(exponent: number): string {
  if (exponent > -1) return `by chance that happens ${Math.round(10 ** exponent * 100)} times in 100`;
  const power = Math.round(-exponent);
  const times = power > 15 ? `10^${power}` : Number((10 ** -exponent).toPrecision(2)).toLocaleString('en-US');
  return `by chance that happens once in ${times} times`;
}
