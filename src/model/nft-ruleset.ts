import type {Truncation, RuleText} from './ruleset.ts';

/** One statement of a rule: a condition or an action. */
export type NftStatement =
  | {readonly kind: 'match'; readonly left: NftExpression; readonly operator: NftOperator; readonly right: NftExpression}
  /** `accept`, `goto X`. */
  | {readonly kind: 'verdict'; readonly text: string}
  /** `KEY vmap MAP`: the verdict for the key, or the next rule. */
  | {readonly kind: 'vmap'; readonly key: NftExpression; readonly map: NftExpression}
  /** `meta mark set VALUE`. */
  | {readonly kind: 'assign'; readonly target: string; readonly value: NftExpression}
  | {
      readonly kind: 'nat';
      readonly action: NftNat;
      readonly to: NftExpression | null;
      readonly port: NftExpression | null;
      /** A new source port is drawn at random. */
      readonly isRandom: boolean;
    }
  | {readonly kind: 'reject'}
  | {readonly kind: 'notrack'}
  /** `update @set { KEY }`, and `add` and `delete`. */
  | {readonly kind: 'set'}
  /** Counters, logs and the like, which do not affect a packet's path. */
  | {readonly kind: 'passive'}
  /** Not understood: its condition or action is unknown. */
  | {readonly kind: 'unknown'; readonly text: string};

export type NftOperator = '==' | '!=' | '<' | '>' | '<=' | '>=';
export type NftNat = 'dnat' | 'snat' | 'masquerade' | 'redirect';

export type NftExpression =
  /** A selector of the packet: `ip daddr`, `meta l4proto`, `ct state`, `fib daddr type`, `numgen random mod 3`. */
  | {readonly kind: 'selector'; readonly text: string}
  /** A constant, without quotes: an address, a prefix `10.0.0.0/8`, a range `1-5`, a word, flags `new,established`, or `eth*`. */
  | {readonly kind: 'value'; readonly text: string}
  /** `@name`. */
  | {readonly kind: 'reference'; readonly set: string}
  /** An anonymous set or map `{ … }`. */
  | {readonly kind: 'list'; readonly elements: readonly NftListElement[]}
  /** `a . b`. */
  | {readonly kind: 'concat'; readonly parts: readonly NftExpression[]}
  | {readonly kind: 'binary'; readonly operator: BinaryOperator; readonly left: NftExpression; readonly right: NftExpression}
  /** `KEY map MAP`. */
  | {readonly kind: 'map'; readonly key: NftExpression; readonly map: NftExpression}
  | {readonly kind: 'unknown'; readonly text: string};

export type BinaryOperator = '&' | '|' | '^' | '<<' | '>>';

/** Key and value, in the same spelling as elements of named sets. */
export interface NftListElement {
  readonly key: string;
  /** Null in a set. */
  readonly value: string | null;
}

/** The families of nftables; an IPv4 packet passes the tables of `ip` and of `inet`. */
export type NftFamily = 'ip' | 'ip6' | 'inet' | 'arp' | 'bridge' | 'netdev';

/**
 * One rule. Its text is what dumps and expectations have in common: the spelling of `nft list ruleset` (1.0.6), without counters and
 * handle, the comment at the end.
 */
export interface NftRule extends RuleText {
  /** The text before the comment. */
  readonly body: string;
  statements(): readonly NftStatement[];
}

/** The properties of a base chain. */
export interface NftHook {
  readonly type: string;
  readonly hook: string;
  /** A number, even if the dump has a name for it. */
  readonly priority: number;
  readonly policy: 'accept' | 'drop';
  /** The interfaces whose packets pass the chain, at the hooks `ingress` and `egress`; left out for all others. */
  readonly devices?: readonly string[];
}

/** A chain. Its rules are parsed on demand: most chains are never parsed. */
export interface NftChain {
  readonly table: string;
  readonly name: string;
  /** Null for a chain that only other chains call. */
  readonly base: NftHook | null;
  readonly ruleCount: number;
  /** False if the dump is truncated before or inside this chain: rules that are missing here may be on the node. */
  readonly complete: boolean;
  /** The texts of all rules, one on each line. No newline at the end. */
  text(): string;
  /** Whether the rules have these texts, in this order: `text()` is the same joined by newlines. */
  holds(texts: readonly string[]): boolean;
  rules(): readonly NftRule[];
}

/**
 * The chains of a table in a dump, in its order. A large node has some ten thousand, most of which are compared and never used again, so a
 * chain becomes an object on demand.
 */
export interface NftChains {
  readonly size: number;
  /** Of all chains. */
  readonly ruleCount: number;
  get(name: string): NftChain | undefined;
  has(name: string): boolean;
  keys(): Iterable<string>;
  values(): Iterable<NftChain>;
  /** Its index in the dump, from 0 to `size`; -1 if there is no chain of that name. */
  placeOf(name: string): number;
  at(place: number): NftChain | undefined;
  ruleCountAt(place: number): number;
  /** A new comparison of their bytes with expected rules; null unless they were read from JSON. */
  checkJson(): NftJsonCheck | null;
}

/** Takes the rules of chains as `nft -j` prints them. */
export interface NftJsonSink {
  /** The rules that follow are all those of this chain, in order. */
  chain(name: string): void;
  /** The first `count` pieces are the rule, from the comma after the handle to its end. The list is reused for the next rule. */
  rule(pieces: readonly string[], count: number): void;
}

/** Compares the chains of a JSON dump with rules while these are written. */
export interface NftJsonCheck extends NftJsonSink {
  /**
   * The names of the chains since the last call that may hold other rules than those written: they differ, or are spelled in another way.
   * All others certainly hold these rules, in this order.
   */
  takeOthers(): readonly string[];
  /** Whether the chain at this index certainly held the rules that were written for it. */
  isHeld(place: number): boolean;
  /** The first index from here on at which the chain is not held; the number of chains if there is none. */
  nextOther(from: number): number;
}

/** An element of a set, or of a map if it has a value. */
export interface NftElement {
  /** `10.96.0.1 . tcp . 443`, `10.0.0.0/8`, `10.0.0.1-10.0.0.9`. */
  readonly key: string;
  /** `goto service-…`, `drop`, `10.244.1.2 . 8080`; null in a set. */
  readonly value: string | null;
  readonly comment: string | null;
}

/** A named set or map. */
export interface NftSet {
  readonly table: string;
  readonly name: string;
  /** `ipv4_addr`, `inet_proto`, `inet_service`… */
  readonly keyTypes: readonly string[];
  /** The value types of a map: `verdict`, or the types of its data; null for a set. */
  readonly valueTypes: readonly string[] | null;
  /** Without `dynamic`, sorted: `interval`, `timeout`, `constant`. */
  readonly flags: readonly string[];
  /** Whether rules may add elements; null if the dump does not show it, like JSON. */
  readonly dynamic: boolean | null;
  /** Seconds; null if there is none. */
  readonly timeout: number | null;
  readonly size: number | null;
  readonly elements: ReadonlyMap<string, NftElement>;
  /** False if the dump is truncated before or inside it. */
  readonly complete: boolean;
}

/** In pasted text, the name of a table whose own line is not shown. */
export const unnamedTable = 'not-shown';

/** What a walk needs of one table, whether actual or expected. */
export interface NftTableSource {
  /** Family and name: `ip kube-proxy`. */
  readonly id: string;
  readonly family: NftFamily;
  readonly baseChains: readonly NftChain[];
  /** False if the dump is truncated before all chains and sets were declared: there may be more, including base chains. */
  readonly declared: boolean;
  chain(name: string): NftChain | undefined;
  set(name: string): NftSet | undefined;
}

/** What a walk needs of a ruleset. */
export interface NftSource {
  /** In the order of creation: of base chains with one hook and priority the kernel runs the youngest first. */
  readonly tableSources: readonly NftTableSource[];
}

export interface NftTable extends NftTableSource {
  readonly name: string;
  /** A table that is switched off (`flags dormant`) processes no packets. Null where the dump does not show whether it is. */
  readonly dormant: boolean | null;
  readonly chains: NftChains;
  /** Sets and maps, which share one namespace. */
  readonly sets: ReadonlyMap<string, NftSet>;
  /** Declarations of other objects (counters, quotas, flowtables), as text on one line. */
  readonly others: readonly string[];
  /** False if the dump is truncated before or inside it. */
  readonly complete: boolean;
}

/** Text that nft does not print. It is kept, never dropped. */
export interface NftStray {
  readonly line: number;
  readonly text: string;
}

/** The output of `nft list ruleset`, `nft list table …` or several of these: all families together. */
export interface NftRuleset extends NftSource {
  /** By family and name: `ip kube-proxy`. */
  readonly tables: ReadonlyMap<string, NftTable>;
  /** The version of nft, which only JSON contains. */
  readonly toolVersion: string | null;
  readonly strays: readonly NftStray[];
  readonly ruleCount: number;
  readonly chainCount: number;
  readonly truncation: Truncation | null;
  /** The first set that a table has twice: the dump is several dumps, of which nobody knows which is true. */
  readonly repeated?: {readonly table: string; readonly set: string};
  /** Rules of kube-proxy that the nft which printed them cannot print. */
  readonly misprint?: NftMisprint;
}

export interface NftMisprint {
  /** What the rules show in place of what they hold, such as `[invalid type]`. */
  readonly text: string;
  readonly rules: readonly RuleText[];
}
