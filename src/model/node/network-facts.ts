import type {Cidr} from '../address.ts';
import type {Family} from '../family.ts';

/** What a node's kernel holds beside its rules. Null is "not seen", which is never "empty". */
export interface NetworkFacts {
  readonly links: readonly Link[] | null;
  /** Of all tables. */
  readonly routes: Readonly<Record<Family, readonly Route[] | null>>;
  /** By priority, those of equal priority as the kernel runs them. */
  readonly policyRules: Readonly<Record<Family, readonly PolicyRule[] | null>>;
  /** By name, with dots between all parts: `net.ipv4.conf.eth0.rp_filter`. */
  readonly sysctls: ReadonlyMap<string, string> | null;
  readonly connections: ConnectionStatistics | null;
  /** The same after all else was read. */
  readonly connectionsAfter: ConnectionStatistics | null;
}

/** An interface, as `ip -d -j link` prints it; null for what `ip -j addr` leaves out. */
export interface Link {
  readonly index: number;
  readonly name: string;
  /** `veth`, `bridge`, `vxlan`; empty for a physical one. */
  readonly kind: string | null;
  readonly isUp: boolean;
  /** It takes all packets that it sees, and a bridge answers for its ports. */
  readonly isPromiscuous: boolean;
  readonly mtu: number | null;
  /** The bridge, bond or VRF that it is a port of. */
  readonly master: string | null;
  /** The other end is in another network namespace, as that of a pod. */
  readonly isPeerElsewhere: boolean;
  /** A port of a bridge that may send a packet back to where it came from; null if it is no port of a bridge. */
  readonly hairpin: boolean | null;
  /** Of a tunnel that the kernel gives no end to (`external`), packets leave as their routes say. */
  readonly vxlan: {readonly id: number; readonly port: number; readonly carrier: string | null; readonly isExternal: boolean} | null;
  /** A bridge that shows packets to iptables whatever the sysctl says. */
  readonly callsIptables: Readonly<Record<Family, boolean>>;
}

export interface Route {
  /** `unicast`, `local`, `broadcast`, `multicast`, `anycast`, `unreachable`, `blackhole`, `prohibit`, `throw`. */
  readonly kind: string;
  readonly to: Cidr;
  readonly table: string;
  readonly metric: number;
  /** One, or several that the kernel chooses from for each connection. Dead ones are left out. */
  readonly hops: readonly {readonly dev: string | null; readonly gateway: string | null}[];
  /** The source address of packets that the node itself sends. */
  readonly source: string | null;
  /** It depends on something that is not evaluated, such as the type of service. */
  readonly isConditional: boolean;
}

/** A rule of `ip rule`. A condition that is left out holds for every packet. */
export interface PolicyRule {
  readonly priority: number;
  /** The rule applies to all packets but those that match. */
  readonly isInverted: boolean;
  readonly from: Cidr | null;
  readonly to: Cidr | null;
  readonly mark: {readonly value: number; readonly mask: number} | null;
  readonly iif: string | null;
  /** Names of conditions that are not evaluated, such as `uid_start`. */
  readonly unevaluated: readonly string[];
  readonly action:
    | {readonly kind: 'lookup'; readonly table: string; readonly suppressedPrefix: number | null}
    | {readonly kind: 'goto'; readonly priority: number}
    | {readonly kind: 'unreachable' | 'nop' | 'unknown'};
}

/** The sums of `conntrack -S` over all processors, since the node was booted. */
export interface ConnectionStatistics {
  readonly insertFailed: number;
  /** Packets that were dropped because the table was full. */
  readonly dropped: number;
  readonly earlyDropped: number;
}

/** Nothing was seen. */
export const noNetworkFacts: NetworkFacts = {
  links: null,
  routes: {IPv4: null, IPv6: null},
  policyRules: {IPv4: null, IPv6: null},
  sysctls: null,
  connections: null,
  connectionsAfter: null,
};

/** A number among the sysctls; null if it was not seen. */
export function sysctlNumber({sysctls}: NetworkFacts, name: string): number | null {
  const text = sysctls?.get(name);
  return text === undefined || !/^-?\d+$/.test(text) ? null : Number(text);
}
