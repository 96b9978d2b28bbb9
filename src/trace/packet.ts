import type {Address} from '../model/address.ts';
import type {Family} from '../model/family.ts';
import type {Rule, RuleText} from '../model/ruleset.ts';
import type {VirtualServer} from '../model/virtual-server.ts';

/** The first packet of a new connection, at one point of its path through the rules. */
export interface Packet {
  readonly family: Family;
  /** `tcp`, `udp` or `sctp`. */
  readonly protocol: string;
  readonly source: Address;
  readonly destination: Address;
  readonly port: number;
  /** `node` for a packet that a process of the node itself sends; all others arrive. */
  readonly origin: 'node' | 'arriving';
  /** Null if unknown. */
  readonly inInterface: string | null;
  readonly outInterface: string | null;
  readonly mark: number;
  readonly connectionMark: number;
  /** The destination was rewritten (DNAT or REDIRECT). */
  readonly rewritten: boolean;
  /** The source will be rewritten (MASQUERADE or SNAT). */
  readonly masquerade: boolean;
  /** Connection tracking was switched off for it (NOTRACK), and with it all address translation. */
  readonly untracked: boolean;
  /** The destination before IPVS forwarded it to a real server. */
  readonly virtual?: {readonly destination: Address; readonly port: number};
}

/** What matching needs to know about the node beside its rules. */
export interface Environment {
  /** Whether an address is one of the node's own; null if unknown. */
  isLocal(address: Address): boolean | null;
  /** Whether a packet with an unknown interface can have arrived on, or leave by, an interface of this name. */
  canBeInterface(name: string, packet: Packet): boolean | null;
  /** Whether an address is in an ipset; null if the set was not read. */
  inSet(name: string, packet: Packet, directions: string): boolean | null;
  /** The virtual server of IPVS that matches a packet; left out if the node has none. */
  virtualServer?(packet: Packet): VirtualServer | undefined;
  /** The `recent` lists that already contain the packet's source. */
  readonly knownTo: ReadonlySet<string>;
  /** The address that REDIRECT sends arriving packets to; null if unknown. */
  redirectAddress(packet: Packet): Address | null;
}

/** The rules that a packet matched, the last one first. */
export interface Path<R extends RuleText = Rule> {
  readonly rule: R;
  readonly before: Path<R> | null;
}

export function pathRules<R extends RuleText>(path: Path<R> | null): readonly R[] {
  const rules: R[] = [];
  for (let at = path; at !== null; at = at.before) rules.push(at.rule);
  return rules.reverse();
}
