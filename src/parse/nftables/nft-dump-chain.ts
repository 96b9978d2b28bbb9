import type {NftChain, NftHook, NftRule} from '../../model/nft-ruleset.ts';
import {nftRule} from './nft-rule.ts';

/** The canonical text of the rule in the bytes of a dump from `start` to `end`. */
export type RuleText = (start: number, end: number) => string;

/** A chain of a text dump, as offsets into its bytes. Its rules are parsed on demand. */
export class NftDumpChain implements NftChain {
  readonly table: string;
  readonly name: string;
  readonly #textAt: RuleText;
  base: NftHook | null = null;
  comment: string | null = null;
  complete = true;
  /** Start, end and line of each rule, one after another. */
  readonly #places: number[] = [];
  #rules: readonly NftRule[] | null = null;

  constructor(table: string, name: string, textAt: RuleText) {
    this.table = table;
    this.name = name;
    this.#textAt = textAt;
  }

  get ruleCount(): number {
    return this.#places.length / 3;
  }

  append(start: number, end: number, line: number): void {
    this.#places.push(start, end, line);
  }

  text(): string {
    return Array.from({length: this.ruleCount}, (_, index) => this.#textOf(index)).join('\n');
  }

  holds(texts: readonly string[]): boolean {
    return this.text() === texts.join('\n');
  }

  rules(): readonly NftRule[] {
    const {table, name: chain} = this;
    this.#rules ??= Array.from({length: this.ruleCount}, (_, index) =>
      nftRule({table, chain, line: this.#places[index * 3 + 2] ?? 0, text: this.#textOf(index)}),
    );
    return this.#rules;
  }

  #textOf(index: number): string {
    return this.#textAt(this.#places[index * 3] ?? 0, this.#places[index * 3 + 1] ?? 0);
  }
}
