import type {Chain, Rule, RuleText} from '../../model/ruleset.ts';
import {parseRule} from './rule.ts';

/** `isByChain` as of a Ruleset. */
export interface TableOfChains {
  readonly name: string;
  readonly isByChain?: true;
}

/** The storage of a dump's chains, by index. */
interface ChainStore {
  readonly table: TableOfChains;
  nameOf(index: number): string;
  policyOf(index: number): string | null;
  isComplete(index: number): boolean;
  ruleCountOf(index: number): number;
  textAt(index: number): string;
  linesAt(index: number): readonly {readonly text: string; readonly line: number}[];
}

/** A chain of a dump. Its rules are parsed on demand. */
export class DumpChain implements Chain {
  readonly #chains: ChainStore;
  readonly #index: number;
  #lines: readonly {readonly text: string; readonly line: number}[] | null = null;
  readonly #parsed: Rule[] = [];
  #rules: readonly Rule[] | null = null;

  constructor(chains: ChainStore, index: number) {
    this.#chains = chains;
    this.#index = index;
  }

  get table(): string {
    return this.#chains.table.name;
  }

  get name(): string {
    return this.#chains.nameOf(this.#index);
  }

  get policy(): string | null {
    return this.#chains.policyOf(this.#index);
  }

  get complete(): boolean {
    return this.#chains.isComplete(this.#index);
  }

  get ruleCount(): number {
    return this.#chains.ruleCountOf(this.#index);
  }

  text(): string {
    return this.#chains.textAt(this.#index);
  }

  rules(): readonly Rule[] {
    this.#rules ??= this.#readLines().flatMap((_, index) => this.ruleAt(index) ?? []);
    return this.#rules;
  }

  ruleAt(index: number): Rule | undefined {
    const line = this.#readLines()[index];
    if (line !== undefined) this.#parsed[index] ??= parseRule(line.text, this.#placeOf(line.line, index));
    return this.#parsed[index];
  }

  #readLines(): readonly {readonly text: string; readonly line: number}[] {
    this.#lines ??= this.#chains.linesAt(this.#index);
    return this.#lines;
  }

  #placeOf(line: number, index: number): Omit<RuleText, 'text'> {
    const {table, name: chain} = this;
    return this.#chains.table.isByChain ? {table, chain, line: index + 1, isOrdinal: true} : {table, chain, line};
  }
}
