import type {NftChain, NftJsonCheck} from '../../model/nft-ruleset.ts';
import {NftDumpChain, type RuleText} from './nft-dump-chain.ts';
import type {TableChains} from './nft-dump-table.ts';

/** The chains of a table in a text dump. */
export class NftChainList implements TableChains {
  readonly #list: NftDumpChain[] = [];
  readonly #places = new Map<string, number>();

  get size(): number {
    return this.#list.length;
  }

  get ruleCount(): number {
    return this.#list.reduce((sum, {ruleCount}) => sum + ruleCount, 0);
  }

  get(name: string): NftDumpChain | undefined {
    return this.at(this.placeOf(name));
  }

  has(name: string): boolean {
    return this.#places.has(name);
  }

  keys(): Iterable<string> {
    return this.#places.keys();
  }

  values(): Iterable<NftDumpChain> {
    return this.#list.values();
  }

  placeOf(name: string): number {
    return this.#places.get(name) ?? -1;
  }

  at(place: number): NftDumpChain | undefined {
    return place < 0 ? undefined : this.#list[place];
  }

  ruleCountAt(place: number): number {
    return this.at(place)?.ruleCount ?? 0;
  }

  baseChains(): readonly NftChain[] {
    return this.#list.filter(({base}) => base !== null);
  }

  checkJson(): NftJsonCheck | null {
    return null;
  }

  /** The chain of this name, which is new if it has not been declared. */
  open(table: string, name: string, textAt: RuleText): NftDumpChain {
    const known = this.get(name);
    if (known !== undefined) return known;
    const chain = new NftDumpChain(table, name, textAt);
    this.#places.set(name, this.#list.length);
    this.#list.push(chain);
    return chain;
  }
}
