import {doubled, hashOf, hashOfName} from '../chain-hash.ts';

/** The numbers stored for each chain, in a row: the position of its name, and its first run of rules. */
export const START = 2;
export const END = 3;
export const LINE = 4;
export const COUNT = 5;
export const FLAGS = 6;
const NAME_START = 0;
const NAME_END = 1;
const HASH = 7;
const ROW = 8;
/** Where names of kube-proxy's chains differ first. */
const SIGN = 'KUBE-'.length;

/** Flags of a chain. A rule is not plain: its text differs from its bytes. */
export const NOT_PLAIN = 1;
export const INCOMPLETE = 2;
/** Its rules are, byte for byte, those of a chain of the dump before. */
export const TAKEN_OVER = 4;
/** It has further runs of rules. */
export const SPLIT = 8;

/** Consecutive chains: the index of the first one, and their number. */
export interface ChainRun {
  readonly first: number;
  readonly count: number;
}

/** How far behind its place in another dump something is. */
export interface Shift {
  readonly shift: number;
  readonly lineShift: number;
}

/**
 * Chains as rows of numbers, found by the hash of their names. The names are in the bytes of the dump and are not copied. Columns that this
 * file does not export belong to the lookup by name.
 */
export class ChainRows {
  readonly bytes: Buffer;
  size = 0;
  #rows: Int32Array<ArrayBuffer>;
  /** Open addressing, at most half full: the index of a chain plus one, 0 for an empty slot. */
  #slots: Int32Array<ArrayBuffer>;
  /** Which bytes occur at `SIGN` in names, as bits: those of a chain of KUBE-XLB cannot be there where no name has an X. */
  #signs = 0;
  /** See `likelyPlaces`. */
  #likely = new Int32Array(64);
  #sought: Uint8Array = new Uint8Array(64);

  /** Has room for about as many chains as `like`. */
  constructor(bytes: Buffer, like: ChainRows | null) {
    this.bytes = bytes;
    this.#rows = new Int32Array((like === null ? 64 : like.size + 64) * ROW);
    this.#slots = new Int32Array(like === null ? 128 : like.#slots.length);
  }

  /** The index of the chain of this name; -1 if there is none. */
  placeOf(name: string): number {
    if (name.length > this.#sought.length) this.#sought = new Uint8Array(2 * name.length);
    for (let at = 0; at < name.length; at++) {
      const code = name.charCodeAt(at);
      if (code > 0xff) return -1;
      this.#sought[at] = code;
    }
    return this.indexOf(this.#sought, 0, name.length);
  }

  /** As in `ChainsByName`. Each column is read for all names before the next one, so that the processor waits for many reads of memory at once. */
  likelyPlaces(names: readonly string[]): Readonly<Int32Array> {
    if (this.#likely.length < names.length) this.#likely = new Int32Array(2 * names.length);
    const likely = this.#likely;
    const rows = this.#rows;
    const {bytes} = this;
    for (let at = 0; at < names.length; at++) likely[at] = hashOfName(names[at] ?? '');
    for (let at = 0; at < names.length; at++) likely[at] = this.#firstOfHash(likely[at] ?? 0);
    for (let at = 0; at < names.length; at++) {
      const place = likely[at] ?? -1;
      const name = names[at] ?? '';
      const end = place < 0 ? 0 : (rows[place * ROW + NAME_END] ?? 0);
      likely[at] = bytes[end - 1] === name.charCodeAt(name.length - 1) ? place : -1;
    }
    return likely;
  }

  /** The index of the chain whose name is in these bytes, which may be those of another dump; -1 if there is none. */
  indexOf(bytes: Uint8Array, start: number, end: number): number {
    return (this.#slots[this.#slotOf(bytes, start, end, hashOf(bytes, start, end))] ?? 0) - 1;
  }

  /** The same for bytes of this dump; adds a new chain if necessary. */
  enter(start: number, end: number): number {
    const hash = hashOf(this.bytes, start, end);
    const slot = this.#slotOf(this.bytes, start, end, hash);
    const known = this.#slots[slot] ?? 0;
    return known > 0 ? known - 1 : this.#add(slot, start, end, hash);
  }

  /**
   * Adds these chains of `other` in their order, up to one whose name there is already, and returns how many. Their names are in this dump
   * `shift` bytes behind where `other` has them: at every second one of `starts`.
   */
  addAll(other: ChainRows, {first, count}: ChainRun, starts: Readonly<Int32Array>, shift: number): number {
    this.#makeRoomFor(this.size + count);
    this.#signs |= other.#signs;
    const [from, rows, slots] = [other.#rows, this.#rows, this.#slots];
    const mask = slots.length - 1;
    for (let index = first; index < first + count; index++) {
      const start = (starts[2 * index] ?? 0) + shift;
      const end = start + (from[index * ROW + NAME_END] ?? 0) - (from[index * ROW + NAME_START] ?? 0);
      const hash = from[index * ROW + HASH] ?? 0;
      let slot = hash & mask;
      for (let known = slots[slot] ?? 0; known !== 0; known = slots[slot] ?? 0) {
        if (rows[(known - 1) * ROW + HASH] === hash && this.isNamed(known - 1, this.bytes, start, end)) return index - first;
        slot = (slot + 1) & mask;
      }
      const row = this.size * ROW;
      rows[row + NAME_START] = start;
      rows[row + NAME_END] = end;
      rows[row + HASH] = hash;
      slots[slot] = ++this.size;
    }
    return count;
  }

  /** The end of the chains from this one on whose rules are consecutive lines without flags, with nothing else between them. */
  endOfPlainRun(first: number): number {
    const rows = this.#rows;
    let end = first;
    for (let row = first * ROW; end < this.size; row += ROW, end++) {
      if (rows[row + COUNT] === 0 || (rows[row + FLAGS] ?? 0) & ~TAKEN_OVER) break;
      if (end > first && rows[row + START] !== (rows[row - ROW + END] ?? 0) + 1) break;
    }
    return end;
  }

  /**
   * Gives chains without rules those of these chains of `other`, up to one that `indexes` does not say or that has rules, and returns how
   * many. The rules are in this dump `shift` bytes and `lineShift` lines behind where `other` has them. An index is that of the chain here.
   */
  takeRules(other: ChainRows, {first, count}: ChainRun, {shift, lineShift}: Shift, indexes: Readonly<Int32Array>): number {
    const [from, rows] = [other.#rows, this.#rows];
    for (let taken = 0; taken < count; taken++) {
      const index = indexes[first + taken] ?? -1;
      const row = index * ROW;
      if (index < 0 || rows[row + COUNT] !== 0) return taken;
      const source = (first + taken) * ROW;
      const nameStart = (from[source + NAME_START] ?? 0) + shift;
      rows[row + NAME_END] = (rows[row + NAME_END] ?? 0) - (rows[row + NAME_START] ?? 0) + nameStart;
      rows[row + NAME_START] = nameStart;
      rows[row + START] = (from[source + START] ?? 0) + shift;
      rows[row + END] = (from[source + END] ?? 0) + shift;
      rows[row + LINE] = (from[source + LINE] ?? 0) + lineShift;
      rows[row + COUNT] = from[source + COUNT] ?? 0;
      rows[row + FLAGS] = TAKEN_OVER;
    }
    return count;
  }

  /** Where the name of a chain starts and ends. */
  nameBytesOf(index: number): readonly [start: number, end: number] {
    return [this.cell(index, NAME_START), this.cell(index, NAME_END)];
  }

  nameOf(index: number): string {
    return this.bytes.toString('latin1', this.cell(index, NAME_START), this.cell(index, NAME_END));
  }

  /** The name of the chain is also at this position, where a lookup finds it from now on. */
  moveName(index: number, start: number): void {
    const row = index * ROW;
    const rows = this.#rows;
    const length = (rows[row + NAME_END] ?? 0) - (rows[row + NAME_START] ?? 0);
    rows[row + NAME_START] = start;
    rows[row + NAME_END] = start + length;
  }

  isNamed(index: number, bytes: Uint8Array, start: number, end: number): boolean {
    const own = this.cell(index, NAME_START);
    const length = end - start;
    if (this.cell(index, NAME_END) - own !== length) return false;
    for (let at = 0; at < length; at++) if (this.bytes[own + at] !== bytes[start + at]) return false;
    return true;
  }

  /** Whether the word at this position is the name of the chain. */
  isAt(index: number, start: number): boolean {
    const end = start + this.cell(index, NAME_END) - this.cell(index, NAME_START);
    return this.bytes[end] === SPACE && this.isNamed(index, this.bytes, start, end);
  }

  /** The index from `start` on of a chain whose name begins with one of these; `size` if there is none. */
  nextStartingWith(start: number, prefixes: readonly Uint8Array[]): number {
    if (prefixes.every(prefix => prefix.length > SIGN && (this.#signs & (1 << (prefix[SIGN] ?? 0))) === 0)) return this.size;
    const [bytes, rows] = [this.bytes, this.#rows];
    for (let index = start; index < this.size; index++) {
      for (const prefix of prefixes) {
        const last = prefix.length - 1;
        if (bytes[(rows[index * ROW + NAME_START] ?? 0) + last] === prefix[last] && this.startsWith(index, prefix)) return index;
      }
    }
    return this.size;
  }

  /** From the end of the prefix, as nearly all names begin with `KUBE-`. */
  startsWith(index: number, prefix: Uint8Array): boolean {
    const own = this.cell(index, NAME_START);
    if (this.cell(index, NAME_END) - own < prefix.length) return false;
    for (let at = prefix.length - 1; at >= 0; at--) if (this.bytes[own + at] !== prefix[at]) return false;
    return true;
  }

  cell(index: number, column: number): number {
    return this.#rows[index * ROW + column] ?? 0;
  }

  setCell(index: number, column: number, value: number): void {
    this.#rows[index * ROW + column] = value;
  }

  #add(slot: number, start: number, end: number, hash: number): number {
    const index = this.size++;
    this.#signs |= 1 << (this.bytes[start + SIGN] ?? 0);
    if (this.#rows.length < this.size * ROW) this.#rows = doubled(this.#rows);
    const row = index * ROW;
    this.#rows[row + NAME_START] = start;
    this.#rows[row + NAME_END] = end;
    this.#rows[row + HASH] = hash;
    this.#slots[slot] = index + 1;
    if (this.#slots.length < 2 * this.size) this.#rehash();
    return index;
  }

  #makeRoomFor(size: number): void {
    while (this.#rows.length < size * ROW) this.#rows = doubled(this.#rows);
    while (this.#slots.length < 2 * size) this.#rehash();
  }

  #rehash(): void {
    const slots = new Int32Array(2 * this.#slots.length);
    for (let index = 0; index < this.size; index++) {
      let slot = this.cell(index, HASH) & (slots.length - 1);
      while (slots[slot] !== 0) slot = (slot + 1) & (slots.length - 1);
      slots[slot] = index + 1;
    }
    this.#slots = slots;
  }

  /** The slot of the chain with this name, or the slot that it would have. */
  #slotOf(bytes: Uint8Array, start: number, end: number, hash: number): number {
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    for (let known = this.#slots[slot] ?? 0; known !== 0; known = this.#slots[slot] ?? 0) {
      if (this.cell(known - 1, HASH) === hash && this.isNamed(known - 1, bytes, start, end)) return slot;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  /** The index of a chain whose name has this hash; -1 if there is none. */
  #firstOfHash(hash: number): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let slot = hash & mask;
    while (slots[slot] !== 0 && this.cell((slots[slot] ?? 0) - 1, HASH) !== hash) slot = (slot + 1) & mask;
    return (slots[slot] ?? 0) - 1;
  }
}

const SPACE = 0x20;
