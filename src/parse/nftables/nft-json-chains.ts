import {endOf, endOfHandle, isSame, itemsBetween, RUN_ROW} from './nft-json-bytes.ts';
import type {NftChain, NftHook, NftJsonCheck, NftRule} from '../../model/nft-ruleset.ts';
import {pushTo} from '../../model/lists.ts';
import {ChainRows, COUNT, END, NAME, ROW, START} from '../chain-list.ts';
import type {TableChains} from './nft-elements.ts';
import {ruleText} from './nft-json-rule.ts';
import {nftRule} from './nft-rule.ts';

/**
 * The number in the row of a chain that only these dumps have: the length of each rule of the first run up to the end of the chain's name.
 * These bytes are the same in all of them. The place of a name that is escaped in the bytes is 0.
 */
const HEAD = 4;
const COMMA = 0x2c;

/** Consecutive rules of one chain in the dump: the offset of the first, the offset past the last, and how many there are. */
interface RuleRun {
  readonly start: number;
  readonly end: number;
  readonly count: number;
}

/** The chains of a table in a JSON dump: rows of offsets into its bytes. */
export class JsonChains extends ChainRows<JsonChain, RuleRun> implements TableChains {
  readonly table: string;
  readonly #hooks = new Map<number, NftHook>();

  constructor(bytes: Buffer, table: string) {
    super(bytes);
    this.table = table;
  }

  protected override create(place: number): JsonChain {
    return new JsonChain(this, place);
  }

  baseChains(): readonly NftChain[] {
    return [...this.#hooks.keys()].sort((a, b) => a - b).flatMap(place => this.at(place) ?? []);
  }

  checkJson(): NftJsonCheck {
    return new JsonChainCheck(this);
  }

  hookOf(place: number): NftHook | null {
    return this.#hooks.get(place) ?? null;
  }

  runsOf(place: number): readonly RuleRun[] {
    const count = this.cell(place, COUNT);
    if (count === 0) return [];
    return [{start: this.cell(place, START), end: this.cell(place, END), count}, ...(this.laterRuns.get(place) ?? [])];
  }

  /** Whether its rules follow one another in the dump. */
  isOneRun(place: number): boolean {
    return !this.laterRuns.has(place);
  }

  startOf(place: number): number {
    return this.cell(place, START);
  }

  endOf(place: number): number {
    return this.cell(place, END);
  }

  /** See `HEAD`. */
  headOf(place: number): number {
    return this.cell(place, HEAD);
  }

  /** Adds chains whose names, all plain ASCII, are between these positions: the start and end of each, one after another. */
  enterAll(names: readonly number[]): void {
    const first = names[0] ?? 0;
    // The names share the memory of one text.
    const text = this.bytes.toString('latin1', first, names.at(-1));
    for (let at = 0; at < names.length; at += 2) {
      const start = names[at] ?? 0;
      this.last = this.enterAt(text.slice(start - first, (names[at + 1] ?? 0) - first), start);
    }
  }

  /** The index of the chain whose name is in these bytes, all plain ASCII; adds a new chain if necessary. */
  enter(start: number, end: number): number {
    // Rules are in the order in which the chains were declared, so it is usually the next one.
    const next = this.last + 1;
    this.last = this.#isNamed(next, start, end) ? next : this.enterAt(this.bytes.toString('latin1', start, end), start);
    return this.last;
  }

  /** The index of the chain of this name, which is escaped in the bytes, or of which it is not known where it is. */
  enterName(name: string): number {
    return this.enterAt(name, 0);
  }

  /** Adds runs as `readRuns` finds them. The names of their chains start so many bytes after them. */
  addRuns(runs: readonly number[], nameAt: number): void {
    for (let at = 0; at < runs.length; at += RUN_ROW) {
      const [start = 0, end = 0, count = 0, nameEnd = 0] = [runs[at], runs[at + 1], runs[at + 2], runs[at + 3]];
      this.addRun(this.enter(start + nameAt, nameEnd), {start, end, count, nameEnd});
    }
  }

  addRun(place: number, {start, end, count, nameEnd}: RuleRun & {readonly nameEnd: number}): void {
    const rows = this.rows;
    const row = place * ROW;
    this.ruleCount += count;
    const last = rows[row + END] ?? 0;
    const known = rows[row + COUNT] ?? 0;
    if (known > 0 && last === start - ', '.length && rows[row + HEAD] === nameEnd - start && this.bytes[last] === COMMA) {
      rows[row + END] = end;
      rows[row + COUNT] = known + count;
      return;
    }
    if (known > 0) {
      pushTo(this.laterRuns, place, {start, end, count});
      return;
    }
    rows[row + START] = start;
    rows[row + END] = end;
    rows[row + COUNT] = count;
    rows[row + HEAD] = nameEnd - start;
  }

  setHook(place: number, hook: NftHook | null): void {
    if (hook === null) this.#hooks.delete(place);
    else this.#hooks.set(place, hook);
  }

  /** The dump is truncated: it does not show the rest of the last chain that has rules, or of the later ones. */
  markTruncated(): void {
    let last = this.size - 1;
    while (last > 0 && this.cell(last, COUNT) === 0) last--;
    this.firstIncomplete = last;
  }

  #isNamed(place: number, start: number, end: number): boolean {
    const own = place < this.size ? this.cell(place, NAME) : 0;
    return own > 0 && this.nameOf(place).length === end - start && isSame(this.bytes, start, own, end - start);
  }
}

/** Whether a name is ASCII that JSON prints without escapes. */
export function isPlainJson(name: string): boolean {
  return plain.test(name);
}

const plain = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

/** A chain of a JSON dump. Its rules are read on demand. */
class JsonChain implements NftChain {
  readonly #chains: JsonChains;
  readonly #place: number;
  readonly name: string;
  #texts: readonly string[] | null = null;
  #rules: readonly NftRule[] | null = null;

  constructor(chains: JsonChains, place: number) {
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

/** Compares the bytes of chains with rules while these are written: nothing is read into objects, and no text is built. */
class JsonChainCheck implements NftJsonCheck {
  readonly #chains: JsonChains;
  readonly #bytes: Buffer;
  readonly #held: Uint8Array;
  #others: string[] = [];
  /** The chain that rules are written for; null between calls of `takeOthers`. */
  #name: string | null = null;
  #place = -1;
  /** Up to where the bytes are those that were written; -1 if one was not. */
  #at = -1;
  #isFirst = true;

  constructor(chains: JsonChains) {
    this.#chains = chains;
    this.#bytes = chains.bytes;
    this.#held = new Uint8Array(chains.size);
  }

  chain(name: string): void {
    this.#close();
    const chains = this.#chains;
    const place = chains.placeOf(name);
    this.#name = name;
    this.#place = place;
    this.#at = place >= 0 && chains.isOneRun(place) ? chains.startOf(place) : -1;
    this.#isFirst = true;
  }

  rule(pieces: readonly string[], count: number): void {
    const bytes = this.#bytes;
    let at = this.#at;
    if (at >= 0 && !this.#isFirst) at = endOf(', ', bytes, at);
    this.#isFirst = false;
    // All rules of the run begin with the same bytes, which name the chain.
    if (at >= 0) at = endOfHandle(bytes, at + this.#chains.headOf(this.#place));
    for (let index = 0; index < count && at >= 0; index++) at = endOf(pieces[index] ?? '', bytes, at);
    this.#at = at;
  }

  takeOthers(): readonly string[] {
    this.#close();
    const others = this.#others;
    if (others.length > 0) this.#others = [];
    return others;
  }

  isHeld(place: number): boolean {
    return this.#held[place] === 1;
  }

  nextOther(from: number): number {
    const at = this.#held.indexOf(0, from);
    return at < 0 ? this.#held.length : at;
  }

  /** The rules are all of the chain's if the bytes end where its last rule ends. */
  #close(): void {
    if (this.#name === null) return;
    if (this.#at >= 0 && this.#at === this.#chains.endOf(this.#place)) this.#held[this.#place] = 1;
    else this.#others.push(this.#name);
    this.#name = null;
  }
}
