import type {NftChain, NftHook, NftRule} from '../../model/nft-ruleset.ts';
import {readJson} from '../json-text.ts';
import {itemsBetween} from './nft-json-items.ts';
import {jsonRuleText} from './nft-json-rule.ts';
import {isJsonObject, type JsonValue, onlyEntry} from './nft-json-value.ts';
import {nftRule} from './nft-rule.ts';

/** Consecutive rules of one chain in the dump: the offset of the first, the offset past the last, and how many there are. */
export interface RuleRun {
  readonly start: number;
  readonly end: number;
  readonly count: number;
}

/** Where the chains of a JSON dump are; see `JsonChains`. */
interface ChainPlaces {
  readonly bytes: Buffer;
  readonly table: string;
  nameOf(place: number): string;
  hookOf(place: number): NftHook | null;
  isComplete(place: number): boolean;
  ruleCountAt(place: number): number;
  runsOf(place: number): readonly RuleRun[];
}

/** A chain of a JSON dump. Its rules are read on demand. */
export class JsonChain implements NftChain {
  readonly #chains: ChainPlaces;
  readonly #place: number;
  readonly name: string;
  readonly comment = null;
  #texts: readonly string[] | null = null;
  #rules: readonly NftRule[] | null = null;

  constructor(chains: ChainPlaces, place: number) {
    this.#chains = chains;
    this.#place = place;
    this.name = chains.nameOf(place);
  }

  get table(): string {
    return this.#chains.table;
  }

  get base(): NftHook | null {
    return this.#chains.hookOf(this.#place);
  }

  get complete(): boolean {
    return this.#chains.isComplete(this.#place);
  }

  get ruleCount(): number {
    return this.#chains.ruleCountAt(this.#place);
  }

  text(): string {
    return this.#allTexts().join('\n');
  }

  holds(texts: readonly string[]): boolean {
    return this.text() === texts.join('\n');
  }

  rules(): readonly NftRule[] {
    const {table, name: chain} = this;
    this.#rules ??= this.#allTexts().map((text, index) => nftRule({table, chain, line: index + 1, isOrdinal: true, text}));
    return this.#rules;
  }

  #allTexts(): readonly string[] {
    const {bytes} = this.#chains;
    this.#texts ??= this.#chains
      .runsOf(this.#place)
      .flatMap(run => itemsBetween(bytes, run.start, run.end))
      .map(({start, end}) => ruleText(bytes.toString('utf8', start, end)));
    return this.#texts;
  }
}

/** The canonical text of a rule; its JSON if that is not one. */
function ruleText(json: string): string {
  const [, rule] = onlyEntry(readJson(json) as JsonValue | undefined);
  return isJsonObject(rule) ? jsonRuleText(rule['expr'], rule['comment']) : json;
}
