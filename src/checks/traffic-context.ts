import type {PortEntry} from '../expect/cluster/cluster-view.ts';
import type {CellTraffic} from '../model/traffic/traffic-report.ts';

/** What was counted of one Service port on one node. */
export interface TrafficContext {
  readonly node: string;
  readonly entry: PortEntry;
  /** By `ip:port`. */
  readonly cells: ReadonlyMap<string, CellTraffic>;
  /** How many addresses the tracked connections come from, up to `maxClients`; null where conntrack was not read. */
  readonly clients: number | null;
  /** Each new connection is given to an endpoint by chance alone, whatever came before. */
  readonly isRandom: boolean;
}

/** All new connections of the port on the node; null where not all were measured. */
export function newConnections(cells: TrafficContext['cells']): number | null {
  let all = 0;
  for (const {newConnections: own} of cells.values()) {
    if (own === null) return null;
    all += own;
  }
  return all;
}

/** A chance of one in a million, as a power of ten: many endpoints on many nodes are looked at again and again. */
export const rareExponent = -6;

/** A chance of 10 to this power in words. */
export function oddsText(exponent: number): string {
  if (exponent > -1) return `by chance that happens ${Math.round(10 ** exponent * 100)} times in 100`;
  const power = Math.round(-exponent);
  const times = power > 15 ? `10^${power}` : Number((10 ** -exponent).toPrecision(2)).toLocaleString('en-US');
  return `by chance that happens once in ${times} times`;
}
