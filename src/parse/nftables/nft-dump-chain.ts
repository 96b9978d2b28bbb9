import type {NftChain, NftHook, NftRule} from '../../model/nft-ruleset.ts';
import {nftRule} from './nft-rule.ts';

/** A chain of a dump, as offsets into its bytes. Its rules are parsed on demand. */
export class NftDumpChain implements NftChain {
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
    return this.#isSpelled(texts) || this.text() === texts.join('\n');
  }

  rules(): readonly NftRule[] {
    this.#rules ??= this.#readRules();
    return this.#rules;
  }

  /** Whether the bytes of the rules are what nft prints for these texts, as far as the source can tell. */
  #isSpelled(texts: readonly string[]): boolean {
    const isSpelled = this.#source.isSpelled?.bind(this.#source, this);
    if (isSpelled === undefined || texts.length !== this.ruleCount) return false;
    return texts.every((text, index) => isSpelled({start: this.#places[index * 3] ?? 0, end: this.#places[index * 3 + 1] ?? 0, text}));
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
  /** Whether the bytes from `start` to `end` are certainly a rule of the chain with this text. False does not mean that they are not. */
  isSpelled?(chain: {readonly table: string; readonly name: string}, rule: {start: number; end: number; text: string}): boolean;
  /** It is JSON, which has no lines: rules are counted in their chain. */
  readonly isOrdinal?: true;
}
