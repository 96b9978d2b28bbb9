import type {NftChain, NftFamily, NftHook, NftRule} from '../../model/nft-ruleset.ts';
import {nftRule} from './nft-rule.ts';

/** The canonical text of the rule in the bytes of a dump from `start` to `end`. */
export type RuleText = (start: number, end: number) => string;

/** A chain of a text dump, as offsets into its bytes. Its rules are parsed on demand. */
export class NftDumpChain implements NftChain {
  readonly table: string;
  readonly name: string;
  readonly #textAt: RuleText;
  base: NftHook | null = null;
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

const words: Readonly<Record<string, number>> = {raw: -300, mangle: -150, dstnat: -100, filter: 0, security: 50, srcnat: 100};
const bridgeWords: Readonly<Record<string, number>> = {dstnat: -300, filter: -200, out: 100, srcnat: 300};

/** `dstnat - 10`, `filter` or `-110` as a number; null if it is none of these. Follows std_prio_family of nft. */
export function nftPriority(text: string, family: NftFamily): number | null {
  const found = /^([a-z]+)?\s*(?:([+-])?\s*(\d+))?$/.exec(text.trim());
  if (found === null) return null;
  const [, word, sign, digits] = found;
  const known = family === 'bridge' ? bridgeWords : words;
  if (word === undefined ? digits === undefined : !Object.hasOwn(known, word)) return null;
  const base = word === undefined ? 0 : (known[word] ?? 0);
  return base + (sign === '-' ? -1 : 1) * Number(digits ?? 0);
}

/** A priority of the families `ip` and `ip6` as nft lists it: relative to the nearest name of the hook within 10, otherwise as a number. */
export function priorityText(priority: number, hook: string): string {
  const near = Object.entries(words).find(([word, base]) => isWordOf(hook, word) && Math.abs(priority - base) <= 10);
  if (near === undefined) return String(priority);
  const [word, base] = near;
  const offset = priority - base;
  return offset === 0 ? word : `${word} ${offset < 0 ? '-' : '+'} ${Math.abs(offset)}`;
}

function isWordOf(hook: string, word: string): boolean {
  if (word === 'dstnat') return hook === 'prerouting';
  return word !== 'srcnat' || hook === 'postrouting';
}
