import type {NftChain, NftHook, NftJsonCheck} from '../../model/nft-ruleset.ts';
import {doubled, hashOf} from '../chain-hash.ts';
import type {TableChains} from './nft-dump-table.ts';
import {JsonChain, type RuleRun} from './nft-json-chain.ts';
import {JsonChainCheck} from './nft-json-check.ts';

/** The position of a rule, and of the name of its chain in it. */
export interface RuleAt {
  readonly start: number;
  readonly end: number;
  readonly nameAt: number;
  readonly nameEnd: number;
}

/** The numbers stored for each chain, in a row: its name as offsets, the hash of its name, and its first run of rules. */
const NAME_START = 0;
const NAME_END = 1;
const HASH = 2;
const START = 3;
const END = 4;
const COUNT = 5;
/** The length of each rule of the first run up to the end of the chain's name: these bytes are the same in all of them. */
const HEAD = 6;
const ROW = 7;

/** The chains of a table in a JSON dump: rows of offsets into its bytes, found by the hash of a name. */
export class JsonChains implements TableChains {
  readonly bytes: Buffer;
  readonly table: string;
  size = 0;
  ruleCount = 0;
  #rows = new Int32Array(64 * ROW);
  /** Open addressing, at most half full: the index of a chain plus one, 0 for an empty slot. */
  #slots = new Int32Array(128);
  /** Chains whose names are not plain ASCII in the bytes. Their rows have the offset 0, and are found by these. */
  readonly #escaped = new Map<string, number>();
  readonly #escapedNames = new Map<number, string>();
  readonly #hooks = new Map<number, NftHook>();
  /** Further runs of a chain, which are rare. */
  readonly #laterRuns = new Map<number, RuleRun[]>();
  readonly #objects = new Map<number, JsonChain>();
  /** The run that the last rule belongs to; null for the first one of its chain. */
  #laterRun: RuleRun | null = null;
  #last = -1;
  /** The name that is sought. */
  #sought: Uint8Array = new Uint8Array(64);
  #firstIncomplete = Number.POSITIVE_INFINITY;

  constructor(bytes: Buffer, table: string) {
    this.bytes = bytes;
    this.table = table;
  }

  get(name: string): JsonChain | undefined {
    return this.at(this.placeOf(name));
  }

  has(name: string): boolean {
    return this.placeOf(name) >= 0;
  }

  *keys(): IterableIterator<string> {
    for (let place = 0; place < this.size; place++) yield this.nameOf(place);
  }

  *values(): IterableIterator<JsonChain> {
    for (let place = 0; place < this.size; place++) yield this.#object(place);
  }

  placeOf(name: string): number {
    const known = this.#escaped.size === 0 ? undefined : this.#escaped.get(name);
    if (known !== undefined) return known;
    if (name.length > this.#sought.length) this.#sought = new Uint8Array(2 * name.length);
    for (let at = 0; at < name.length; at++) {
      const code = name.charCodeAt(at);
      if (code > 0x7f) return -1;
      this.#sought[at] = code;
    }
    return (this.#slots[this.#slotOf(this.#sought, 0, name.length)] ?? 0) - 1;
  }

  at(place: number): JsonChain | undefined {
    return place < 0 || place >= this.size ? undefined : this.#object(place);
  }

  ruleCountAt(place: number): number {
    const later = this.#laterRuns.get(place) ?? [];
    return later.reduce((sum, {count}) => sum + count, this.#cell(place, COUNT));
  }

  baseChains(): readonly NftChain[] {
    return [...this.#hooks.keys()].sort((a, b) => a - b).map(place => this.#object(place));
  }

  checkJson(): NftJsonCheck {
    return new JsonChainCheck(this);
  }

  nameOf(place: number): string {
    return this.#escapedNames.get(place) ?? this.bytes.toString('latin1', this.#cell(place, NAME_START), this.#cell(place, NAME_END));
  }

  hookOf(place: number): NftHook | null {
    return this.#hooks.get(place) ?? null;
  }

  isComplete(place: number): boolean {
    return place < this.#firstIncomplete;
  }

  runsOf(place: number): readonly RuleRun[] {
    const count = this.#cell(place, COUNT);
    if (count === 0) return [];
    return [{start: this.#cell(place, START), end: this.#cell(place, END), count}, ...(this.#laterRuns.get(place) ?? [])];
  }

  /** Whether its rules follow one another in the dump. */
  isOneRun(place: number): boolean {
    return !this.#laterRuns.has(place);
  }

  startOf(place: number): number {
    return this.#cell(place, START);
  }

  endOf(place: number): number {
    return this.#cell(place, END);
  }

  /** See `HEAD`. */
  headOf(place: number): number {
    return this.#cell(place, HEAD);
  }

  /** The index of the chain whose name is in these bytes, all plain ASCII; adds a new chain if necessary. */
  enter(start: number, end: number): number {
    // Rules are in the order in which the chains were declared, so it is usually the next one.
    const next = this.#last + 1;
    this.#last = next < this.size && this.#isNamed(next, this.bytes, start, end) ? next : this.#found(start, end);
    return this.#last;
  }

  /** The index of the chain of this name, which stands anywhere after `from`, perhaps escaped; adds a new chain if necessary. */
  enterName(name: string, from: number): number {
    const known = this.placeOf(name);
    if (known >= 0) return known;
    const at = isPlainJson(name) ? this.bytes.indexOf(`"${name}"`, from) : -1;
    if (at >= 0) return this.enter(at + 1, at + 1 + name.length);
    const place = this.#add(0, 0, 0);
    this.#escaped.set(name, place);
    this.#escapedNames.set(place, name);
    return place;
  }

  /** Adds the first rule of a run: its bytes up to the name of the chain, or other objects, separate it from the rule before. */
  begin(place: number, {start, end, nameAt, nameEnd}: RuleAt): void {
    const rows = this.#rows;
    const row = place * ROW;
    this.ruleCount++;
    if (rows[row + COUNT] !== 0) {
      this.#laterRun = {start, end, count: 1};
      const runs = this.#laterRuns.get(place);
      if (runs === undefined) this.#laterRuns.set(place, [this.#laterRun]);
      else runs.push(this.#laterRun);
      return;
    }
    this.#laterRun = null;
    rows[row + START] = start;
    rows[row + END] = end;
    rows[row + COUNT] = 1;
    rows[row + HEAD] = nameEnd - start;
    if (rows[row + NAME_START] === 0) return;
    // A lookup by name is followed by reading the rules: the name in them is closer in memory than that of the declaration.
    rows[row + NAME_START] = nameAt;
    rows[row + NAME_END] = nameEnd;
  }

  /** Adds the next rule of the run that `begin` began. */
  extend(place: number, end: number): void {
    this.ruleCount++;
    if (this.#laterRun === null) {
      const row = place * ROW;
      this.#rows[row + END] = end;
      this.#rows[row + COUNT] = this.#cell(place, COUNT) + 1;
      return;
    }
    this.#laterRun.end = end;
    this.#laterRun.count++;
  }

  setHook(place: number, hook: NftHook | null): void {
    if (hook === null) this.#hooks.delete(place);
    else this.#hooks.set(place, hook);
  }

  /** The dump is truncated: it does not show the rest of the last chain that has rules, or of the later ones. */
  markTruncated(): void {
    let last = this.size - 1;
    while (last > 0 && this.#cell(last, COUNT) === 0) last--;
    this.#firstIncomplete = last;
  }

  #found(start: number, end: number): number {
    const slot = this.#slotOf(this.bytes, start, end);
    const known = this.#slots[slot] ?? 0;
    if (known > 0) return known - 1;
    this.#slots[slot] = this.size + 1;
    return this.#add(start, end, hashOf(this.bytes, start, end));
  }

  #add(start: number, end: number, hash: number): number {
    const place = this.size++;
    if (this.#rows.length < this.size * ROW) this.#rows = doubled(this.#rows);
    const row = place * ROW;
    this.#rows[row + NAME_START] = start;
    this.#rows[row + NAME_END] = end;
    this.#rows[row + HASH] = hash;
    if (this.#slots.length < 2 * this.size) this.#rehash();
    return place;
  }

  #rehash(): void {
    const slots = new Int32Array(2 * this.#slots.length);
    for (let place = 0; place < this.size; place++) {
      if (this.#cell(place, NAME_START) === 0) continue;
      let slot = this.#cell(place, HASH) & (slots.length - 1);
      while (slots[slot] !== 0) slot = (slot + 1) & (slots.length - 1);
      slots[slot] = place + 1;
    }
    this.#slots = slots;
  }

  /** The slot of the chain with this name, or the slot that it would have. */
  #slotOf(bytes: Uint8Array, start: number, end: number): number {
    const hash = hashOf(bytes, start, end);
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    for (let known = this.#slots[slot] ?? 0; known !== 0; known = this.#slots[slot] ?? 0) {
      if (this.#cell(known - 1, HASH) === hash && this.#isNamed(known - 1, bytes, start, end)) return slot;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  #isNamed(place: number, bytes: Uint8Array, start: number, end: number): boolean {
    const own = this.#cell(place, NAME_START);
    const length = end - start;
    if (own === 0 || this.#cell(place, NAME_END) - own !== length) return false;
    for (let at = 0; at < length; at++) if (this.bytes[own + at] !== bytes[start + at]) return false;
    return true;
  }

  #object(place: number): JsonChain {
    const known = this.#objects.get(place);
    if (known !== undefined) return known;
    const chain = new JsonChain(this, place);
    this.#objects.set(place, chain);
    return chain;
  }

  #cell(place: number, column: number): number {
    return this.#rows[place * ROW + column] ?? 0;
  }
}

/** Whether a name is ASCII that JSON prints without escapes. */
export function isPlainJson(name: string): boolean {
  return plain.test(name);
}

const plain = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;
