import type {Family} from '../model/address.ts';
import type {ConntrackCounts} from '../parse/conntrack.ts';
import type {NatCounters} from '../parse/iptables/nat-counters.ts';
import type {IpvsStats} from '../parse/ipvs/ipvsadm-stats.ts';

/** The counters of one read of one node. A null or missing counter was not read, and `missing` has the reason. */
export interface NodeSample {
  /** When the read was, in milliseconds, by any clock: only the difference between two reads is used. */
  readonly at: number;
  /** The time within which the counters were read, in milliseconds, with `at` in its middle; left out if not known. */
  readonly width?: number;
  /** The same by the node's clock: without the time that a connection takes, and that the output takes to arrive. */
  readonly onNode?: {readonly at: number; readonly width: number};
  readonly nat: ReadonlyMap<Family, NatCounters>;
  /** From `ipvsadm -Ln --stats --exact` and `ipvsadm -Ln`, as far as they could be read. */
  readonly ipvs: readonly IpvsStats[];
  readonly connections: ConntrackCounts | null;
  /** Why counters were not read, by kind. */
  readonly missing: Readonly<Partial<Record<'counters' | 'conntrack' | 'ipvs', string>>>;
}
