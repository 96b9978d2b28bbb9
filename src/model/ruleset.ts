import type {Family} from './address.ts';

/**
 * One difference between actual and expected rules. `owner` is the Service port (or another kind of group) that the rule belongs to; null
 * for base rules and for rules that are not expected.
 */
export interface Difference<Owner, R extends RuleText = Rule> {
  readonly kind: 'missing' | 'extra' | 'duplicate' | 'reordered';
  readonly rule: R;
  readonly owner: Owner | null;
}

/** One option of a rule, a match or a target, such as `! -s 10.0.0.0/8` or `--dport 80`. */
export interface RuleOption {
  readonly flag: string;
  readonly negated: boolean;
  readonly values: readonly string[];
  /** The value was in double quotes in the dump; it is stored without them and without escapes. */
  readonly quoted?: true;
}

/** A match, whether known or unknown: `-m statistic --mode random --probability 0.5`. */
export interface Match {
  readonly name: string;
  readonly options: readonly RuleOption[];
}

/** The target of a rule: a built-in or extension target, or a jump (`-j`) or goto (`-g`) to a user chain. */
export interface Target {
  readonly name: string;
  readonly goto: boolean;
  readonly options: readonly RuleOption[];
}

/**
 * A place on a node and its text: a rule of iptables or nftables, a set element, a virtual server. The evidence in every proxy mode. `line`
 * counts from 1 in its dump and is 0 for expected ones.
 */
export interface RuleText {
  readonly table: string;
  readonly chain: string;
  readonly line: number;
  /** `line` is the index in the chain: it was read from JSON, which has no lines. */
  readonly isOrdinal?: true;
  /** The backend of iptables that holds it; left out unless the node has rules in both. */
  readonly backend?: Backend;
  /** As in the dump, without counters. */
  readonly text: string;
}

/** Only the fields of RuleText: a rule that is kept without its parsed parts. */
export function ruleTextOf({table, chain, line, isOrdinal, backend, text}: RuleText): RuleText {
  return {table, chain, line, isOrdinal, backend, text};
}

/** One rule of iptables. */
export interface Rule extends RuleText {
  /** `-s -d -i -o -p -f`, in the order given. */
  readonly options: readonly RuleOption[];
  readonly matches: readonly Match[];
  /** Null for a rule that only counts or has a comment. */
  readonly target: Target | null;
}

/** The value of an option of a rule itself, such as `-d`; undefined if it has none, or excludes it. */
export function optionOf({options}: Rule, flag: string): string | undefined {
  return options.find(option => option.flag === flag && !option.negated)?.values[0];
}

/** The same of an option of its matches, such as `--dport`. */
export function matchOptionOf({matches}: Rule, flag: string): string | undefined {
  return matches.flatMap(({options}) => options).find(option => option.flag === flag && !option.negated)?.values[0];
}

/** The same of an option of its target, such as `--to-destination`: of the first of these that it has. */
export function targetOptionOf({target}: Pick<Rule, 'target'>, ...flags: readonly string[]): string | undefined {
  return target?.options.find(({flag}) => flags.includes(flag))?.values[0];
}

export function commentOf({matches}: Rule): string | undefined {
  return matches.find(({name}) => name === 'comment')?.options[0]?.values[0];
}

/** A chain of one table. Rules are parsed on demand: most chains are never parsed. */
export interface Chain {
  readonly table: string;
  readonly name: string;
  /** The policy of a base chain; null for a user chain. */
  readonly policy: string | null;
  readonly ruleCount: number;
  /** False if the dump is truncated before or inside this chain: rules that are missing here may be on the node. */
  readonly complete: boolean;
  /** All rules, one on each line, as iptables-save prints them without counters. No newline at the end. */
  text(): string;
  rules(): readonly Rule[];
  /** One of `rules()`, without parsing the others; left out where they are parsed anyway. */
  ruleAt?(index: number): Rule | undefined;
}

/** One rule of a chain, by its index; the others are not parsed for it if that can be. */
export function ruleAt(chain: Chain, index: number): Rule | undefined {
  return chain.ruleAt === undefined ? chain.rules()[index] : chain.ruleAt(index);
}

/** The expected rules of one owner, such as a Service port. */
export interface OwnerRules {
  /** Chains of table nat that belong to the owner alone, as text by name. */
  readonly own: ReadonlyMap<string, string>;
  /** Its rules in chains that others share. */
  readonly shared: readonly SharedRule[];
  /** The next node may get the very same object. */
  readonly isKept?: true;
}

/** A rule of a chain with rules of many owners, without its `-A CHAIN`. */
export interface SharedRule extends Pick<RuleText, 'table' | 'chain' | 'text'> {
  /** All of it, where the rules are kept: looking up the very same string on each node takes less than making it. */
  readonly line?: string;
}

/** What a walk needs of a ruleset, whether actual or expected. */
export interface ChainSource {
  readonly family: Family;
  hasTable(table: string): boolean;
  chain(table: string, name: string): Chain | undefined;
}

/**
 * The chains of a table, in the order of the dump. There may be a quarter of a million: code that iterates over all of them should use
 * indexes and texts, and create no object for each.
 */
export interface ChainsByName {
  readonly size: number;
  get(name: string): Chain | undefined;
  has(name: string): boolean;
  keys(): Iterable<string>;
  values(): Iterable<Chain>;
  /** Those whose names begin with one of these prefixes. */
  startingWith(...prefixes: readonly string[]): Iterable<Chain>;
  /** Those whose names begin with none of these prefixes. */
  notStartingWith(...prefixes: readonly string[]): Iterable<Chain>;
  /** Its index in the dump, from 0 to `size`; -1 if there is no chain of that name. */
  placeOf(name: string): number;
  at(place: number): Chain | undefined;
  /** The `text()` of the chain at that index. */
  textAt(place: number): string;
  /** Whether a rule may contain the text: false is certain. It searches the whole dump, and no chains; not all can. */
  mayContain?(text: string): boolean;
  /** The rules of the chain at that index, as text: they are not parsed. */
  linesAt(place: number): readonly {readonly text: string; readonly line: number}[];
  /** The line of the first rule of the chain at that index; null if it has no rules, or if they are not known to be consecutive lines. */
  lineAt(place: number): number | null;
}

export interface Table {
  readonly name: string;
  readonly chains: ChainsByName;
  /** False if no COMMIT closed the table: the dump is truncated. */
  readonly complete: boolean;
}

/** A line that is neither a rule nor another line of iptables-save. It is kept, never dropped. */
export interface StrayLine {
  readonly line: number;
  readonly text: string;
}

export type Backend = 'nft' | 'legacy';

/** From where on rules may be missing in a dump. */
export interface Truncation {
  /** Of nftables `ip kube-proxy`. */
  readonly table: string;
  /** The last line that was read; in JSON always 1. */
  readonly line: number;
  /** A line inside the table that its tool did not print, such as an error. Left out where the dump ends. */
  readonly by?: string;
  /** What shows that a dump which is closed lacks its end. */
  readonly seenBy?: string;
}

/** The output of one run of iptables-save (or of `iptables -S`). */
export interface Ruleset extends ChainSource {
  readonly tables: ReadonlyMap<string, Table>;
  /** Null if the dump has no header that shows it. */
  readonly backend: Backend | null;
  /** The version in the header, such as `1.8.9`. */
  readonly toolVersion: string | null;
  readonly strays: readonly StrayLine[];
  readonly ruleCount: number;
  readonly chainCount: number;
  readonly truncation: Truncation | null;
  /** `iptables-save` wrote it without counters before the rules. Left out where that is not certain. */
  readonly isUncounted?: true;
  /** Of table nat it has only the chains that packets to the requested Services can reach. The lines of its rules are indexes. */
  readonly isByChain?: true;
  /**
   * Runs `work`, and then drops the rules that were parsed meanwhile, in chains that allow it. On the next request they are parsed again,
   * into other objects. Without this, a node on which every Service is faulty would need memory for all its rules at once.
   */
  forgetting<T>(mayForget: (chain: string) => boolean, work: () => T): T;
}
