import type {Family} from './family.ts';

/** One option of a rule, a match or a target, such as `! -s 10.0.0.0/8` or `--dport 80`. */
export interface RuleOption {
  readonly flag: string;
  readonly negated: boolean;
  readonly values: readonly string[];
  /** The value stood in double quotes in the dump; it is held here without them and without escapes. */
  readonly quoted?: true;
}

/** A match, known or not: `-m statistic --mode random --probability 0.5`. */
export interface Match {
  readonly name: string;
  readonly options: readonly RuleOption[];
}

/** What a rule does: a built-in or extension target, or a jump (`-j`) or goto (`-g`) to a user chain. */
export interface Target {
  readonly name: string;
  readonly goto: boolean;
  readonly options: readonly RuleOption[];
}

/**
 * Where something stands on a node and how it reads: a rule of iptables or nftables, a set element, a virtual server. Evidence
 * in any proxy mode. `line` counts from 1 in the dump it was read from and is 0 for what is only expected.
 */
export interface RuleText {
  readonly table: string;
  readonly chain: string;
  readonly line: number;
  /** `line` is the place in the chain: it was read from JSON, which has no lines. */
  readonly isOrdinal?: true;
  /** As it stands in the dump, counters stripped. */
  readonly text: string;
}

/** Only what a RuleText has: a rule that is kept without what it was parsed to. */
export function ruleTextOf({table, chain, line, isOrdinal, text}: RuleText): RuleText {
  return {table, chain, line, ...(isOrdinal === undefined ? {} : {isOrdinal}), text};
}

/** One rule of iptables. */
export interface Rule extends RuleText {
  /** `-s -d -i -o -p -f`, in the order given. */
  readonly options: readonly RuleOption[];
  readonly matches: readonly Match[];
  /** Null for a rule that only counts or carries a comment. */
  readonly target: Target | null;
}

/** A chain of one table. Rules are parsed when they are first asked for: most chains never are. */
export interface Chain {
  readonly table: string;
  readonly name: string;
  /** The policy of a base chain; null for a user chain. */
  readonly policy: string | null;
  readonly ruleCount: number;
  /** False when the dump was cut before or inside this chain: what is not here may still be on the node. */
  readonly complete: boolean;
  /** All rules, a line each, as iptables-save prints them without counters. No newline at the end. */
  text(): string;
  rules(): readonly Rule[];
}

/** What a walk needs of a ruleset, whether it was read from a node or is expected there. */
export interface ChainSource {
  readonly family: Family;
  hasTable(table: string): boolean;
  chain(table: string, name: string): Chain | undefined;
}

/**
 * The chains of a table, in the order of the dump. There may be a quarter of a million of them: what goes through them all asks for
 * places and texts, and makes no object of each.
 */
export interface ChainsByName {
  readonly size: number;
  get(name: string): Chain | undefined;
  has(name: string): boolean;
  keys(): Iterable<string>;
  values(): Iterable<Chain>;
  /** Those whose names begin with one of these. */
  startingWith(...prefixes: readonly string[]): Iterable<Chain>;
  /** Its place in the dump, from 0 to `size`; -1 where there is no chain of that name. */
  placeOf(name: string): number;
  at(place: number): Chain | undefined;
  /** What `text()` of the chain at that place says. */
  textAt(place: number): string;
}

export interface Table {
  readonly name: string;
  readonly chains: ChainsByName;
  /** False when no COMMIT closed the table: the dump was cut. */
  readonly complete: boolean;
}

/** A line that is neither a rule nor anything else that iptables-save prints. It is kept, never dropped. */
export interface StrayLine {
  readonly line: number;
  readonly text: string;
}

export type Backend = 'nft' | 'legacy';

/** What one run of iptables-save (or of `iptables -S`) printed. */
export interface Ruleset extends ChainSource {
  readonly tables: ReadonlyMap<string, Table>;
  /** Null when the dump has no header that tells. */
  readonly backend: Backend | null;
  /** The version in the header, such as `1.8.9`. */
  readonly toolVersion: string | null;
  readonly strays: readonly StrayLine[];
  readonly ruleCount: number;
  readonly chainCount: number;
  /** Where the dump is truncated: the table and the last line that was read. */
  readonly cut: {readonly table: string; readonly line: number} | null;
  /**
   * Does the work, and then forgets the rules that were parsed for it, of chains that may be forgotten. Asked for again they are
   * parsed again, as other objects. Without it a node on which every Service is wrong would need memory for all its rules at once.
   */
  forgetting<T>(mayForget: (chain: string) => boolean, work: () => T): T;
}
