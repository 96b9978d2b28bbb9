import type {Family} from '../model/family.ts';
import type {ConntrackCounts} from '../parse/conntrack-counts.ts';
import type {NatCounters} from '../parse/iptables/nat-counters.ts';
import type {IpvsStats} from '../parse/ipvs/ipvsadm-stats.ts';

/** What one read of one node counted. What is null or not in it was not read, and `missing` says why. */
export interface NodeSample {
  /** When the read was, in milliseconds, by the clock that was at hand: only the difference of two counts. */
  readonly at: number;
  readonly nat: ReadonlyMap<Family, NatCounters>;
  /** Of `ipvsadm -Ln --stats --exact` and of `ipvsadm -Ln`, what could be read. */
  readonly ipvs: readonly IpvsStats[];
  readonly connections: ConntrackCounts | null;
  /** Why something was not read, by what it is. */
  readonly missing: Readonly<Partial<Record<'counters' | 'conntrack' | 'ipvs', string>>>;
}
