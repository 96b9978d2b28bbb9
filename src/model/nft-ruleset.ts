import type {NftStatement} from './nft-statement.ts';

/** The families of nftables; a packet of IPv4 passes the tables of `ip` and of `inet`. */
export type NftFamily = 'ip' | 'ip6' | 'inet' | 'arp' | 'bridge' | 'netdev';

/**
 * One rule. Its text is the meeting point of dumps and expectation: as `nft list ruleset` (1.0.6) spells it, without counters
 * and handle, the comment at the end.
 */
export interface NftRule {
  /** Family and name: `ip kube-proxy`. */
  readonly table: string;
  readonly chain: string;
  /**
   * Where to find it: counted from 1, the line of a text dump; in JSON, which has no lines, the place of the rule in its chain.
   * 0 for a rule that is only expected.
   */
  readonly line: number;
  /** The dump is JSON. */
  readonly isOrdinal?: true;
  readonly text: string;
  /** The text before the comment. */
  readonly body: string;
  readonly comment: string | null;
  statements(): readonly NftStatement[];
}

/** What makes a chain a base chain. */
export interface NftHook {
  readonly type: string;
  readonly hook: string;
  /** A number, whatever word the dump had for it. */
  readonly priority: number;
  readonly policy: 'accept' | 'drop';
}

/** A chain. Its rules are made when they are first asked for: most chains never are. */
export interface NftChain {
  readonly table: string;
  readonly name: string;
  /** Null for a chain that only other chains call. */
  readonly base: NftHook | null;
  /** Only text dumps tell it. */
  readonly comment: string | null;
  readonly ruleCount: number;
  /** False when the dump was cut before or inside this chain: what is not here may still be on the node. */
  readonly complete: boolean;
  /** The texts of all rules, a line each. No newline at the end. */
  text(): string;
  rules(): readonly NftRule[];
}

/** An element of a set, or of a map if it has a value. */
export interface NftElement {
  /** `10.96.0.1 . tcp . 443`, `10.0.0.0/8`, `10.0.0.1-10.0.0.9`. */
  readonly key: string;
  /** `goto service-…`, `drop`, `10.244.1.2 . 8080`; null in a set. */
  readonly value: string | null;
  readonly comment: string | null;
  /** Whole seconds that it still lives; null when it stays. */
  readonly expires: number | null;
}

/** A named set or map. */
export interface NftSet {
  readonly table: string;
  readonly name: string;
  /** `ipv4_addr`, `inet_proto`, `inet_service`… */
  readonly keyTypes: readonly string[];
  /** What a map holds: `verdict`, or the types of its data; null for a set. */
  readonly valueTypes: readonly string[] | null;
  /** Without `dynamic`, sorted: `interval`, `timeout`, `constant`. */
  readonly flags: readonly string[];
  /** Whether rules may add to it; null when the dump does not tell, as JSON never does. */
  readonly dynamic: boolean | null;
  /** Seconds; null when there is none. */
  readonly timeout: number | null;
  readonly size: number | null;
  readonly comment: string | null;
  readonly elements: ReadonlyMap<string, NftElement>;
  /** False when the dump was cut before or inside it. */
  readonly complete: boolean;
}

/** What a walk needs of one table, whether it was read from a node or is expected there. */
export interface NftTableSource {
  /** Family and name: `ip kube-proxy`. */
  readonly id: string;
  readonly family: NftFamily;
  readonly baseChains: readonly NftChain[];
  /** False when the dump was cut before all chains and sets were declared: there may be more, base chains too. */
  readonly declared: boolean;
  chain(name: string): NftChain | undefined;
  set(name: string): NftSet | undefined;
}

/** What a walk needs of a ruleset. */
export interface NftSource {
  /** In the order in which they were made: of base chains of one hook and priority the kernel asks the youngest first. */
  readonly tableSources: readonly NftTableSource[];
}

export interface NftTable extends NftTableSource {
  readonly name: string;
  /** Only text dumps tell it. */
  readonly comment: string | null;
  /** A table that is switched off (`flags dormant`) sees no packet. */
  readonly dormant: boolean;
  readonly chains: ReadonlyMap<string, NftChain>;
  /** Sets and maps, which share one space of names. */
  readonly sets: ReadonlyMap<string, NftSet>;
  /** Declarations of anything else (counters, quotas, flowtables), as text on one line. */
  readonly others: readonly string[];
  /** False when the dump was cut before or inside it. */
  readonly complete: boolean;
}

/** Text that is no declaration of nft's. It is kept, never dropped. */
export interface NftStray {
  readonly line: number;
  readonly text: string;
}

/** What `nft list ruleset`, `nft list table …` or several of these printed: all families together. */
export interface NftRuleset extends NftSource {
  /** By family and name: `ip kube-proxy`. */
  readonly tables: ReadonlyMap<string, NftTable>;
  /** The version of nft, which only JSON tells. */
  readonly toolVersion: string | null;
  readonly strays: readonly NftStray[];
  readonly ruleCount: number;
  readonly chainCount: number;
  /** Where the dump is truncated: the table (`ip kube-proxy`), and the last line that was read; in JSON always line 1. */
  readonly cut: {readonly table: string; readonly line: number} | null;
}
