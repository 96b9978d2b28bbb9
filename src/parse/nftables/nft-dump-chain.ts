import type {NftDumpedChain, NftHook, NftRule} from '../../model/nft-ruleset.ts';
import {nftRule} from './nft-rule.ts';

/** A chain of a dump, as offsets into its bytes. Its rules are parsed on demand. */
export class NftDumpChain implements NftDumpedChain {
  readonly table: string;
  readonly name: string;
  readonly #source: RuleSource;
  base: NftHook | null = null;
  comment: string | null = null;
  complete = true;
  /** Start, end and line of each rule, one after another. */
  readonly #places: number[] = [];
  #rules: readonly NftRule[] | null = null;

  constructor(table: string, name: string, source: RuleSource) {
    this.table = table;
    this.name = name;
    this.#source = source;
  }

  get ruleCount(): number {
    return this.#places.length / 3;
  }

  append(start: number, end: number, line: number): void {
    this.#places.push(start, end, line);
  }

  text(): string {
    const texts: string[] = [];
    for (let at = 0; at < this.#places.length; at += 3) texts.push(this.#textOf(at));
    return texts.join('\n');
  }

  holds(texts: readonly string[]): boolean {
    return this.text() === texts.join('\n');
  }

  holdsJson(rules: readonly string[]): boolean {
    const {ends} = this.#source;
    if (ends === undefined || rules.length !== this.ruleCount) return false;
    return rules.every((rule, index) => ends(this, {start: this.#places[index * 3] ?? 0, end: this.#places[index * 3 + 1] ?? 0}, rule));
  }

  rules(): readonly NftRule[] {
    this.#rules ??= this.#readRules();
    return this.#rules;
  }

  #readRules(): readonly NftRule[] {
    const {table, name: chain} = this;
    const ordinal = this.#source.isOrdinal === true ? ({isOrdinal: true} as const) : {};
    return Array.from({length: this.ruleCount}, (_, index) =>
      nftRule({table, chain, line: this.#places[index * 3 + 2] ?? 0, ...ordinal, text: this.#textOf(index * 3)}),
    );
  }

  #textOf(at: number): string {
    return this.#source.textAt(this.#places[at] ?? 0, this.#places[at + 1] ?? 0);
  }
}

/** The dump that rules stand in. */
export interface RuleSource {
  /** The canonical text of the rule in the bytes from `start` to `end`. */
  textAt(start: number, end: number): string;
  /** In JSON, whether the rule of the chain in the bytes from `start` to `end` has nothing but these after its handle. */
  readonly ends?: (chain: {readonly table: string; readonly name: string}, place: RulePlace, text: string) => boolean;
  /** It is JSON, which has no lines: rules are counted in their chain. */
  readonly isOrdinal?: true;
}

interface RulePlace {
  readonly start: number;
  readonly end: number;
}
