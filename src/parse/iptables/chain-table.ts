import type {ChainsByName} from '../../model/ruleset.ts';
import {DumpChain, type TableOfChains} from './dump-chain.ts';

/** A run of consecutive rules of one chain in the dump: byte offsets, the number of the first line, and the number of rules. */
interface Run {
  readonly start: number;
  end: number;
  readonly line: number;
  count: number;
}

/** The position of a rule: `nameAt` is where the name of its chain starts, `end` the end of the line, without the newline. */
interface RuleAt {
  readonly start: number;
  readonly nameAt: number;
  readonly end: number;
  readonly line: number;
  /** The line is only the rule: it has no counters and is not indented. */
  readonly plain: boolean;
}

/** The numbers stored for each chain, in a row: the position of its name, and its first run of rules. */
const NAME_START = 0;
const NAME_END = 1;
const START = 2;
const END = 3;
const LINE = 4;
const COUNT = 5;
const FLAGS = 6;
const HASH = 7;
const ROW = 8;

/** A rule is not plain: its text differs from its bytes. */
const NOT_PLAIN = 1;
const INCOMPLETE = 2;
/** Its rules are, byte for byte, those of a chain of the dump before. */
const TAKEN_OVER = 4;

const SPACE = 0x20;

/**
 * The chains of one table of a dump, in its order. A large node has a quarter of a million, most of which are compared as text and never
 * used again. So a chain is a row of offsets into the bytes of the dump, found by the hash of its name, and becomes an object on demand.
 */
export class ChainTable implements ChainsByName {
  readonly bytes: Buffer;
  readonly table: TableOfChains;
  size = 0;
  /** Of all chains. */
  ruleCount = 0;
  /** Each rule is all of its line: none has counters or is indented. */
  isPlain = true;
  #rows: Int32Array<ArrayBuffer>;
  /** Open addressing, at most half full: the index of a chain plus one, 0 for an empty slot. */
  #slots: Int32Array<ArrayBuffer>;
  readonly #policies = new Map<number, string>();
  /** Further runs of a chain. They are rare: rules of one chain are nearly always consecutive. */
  readonly #laterRuns = new Map<number, Run[]>();
  readonly #objects = new Map<number, DumpChain>();
  /** The chains that became objects, in the order of their requests. */
  readonly #asked: number[] = [];
  /** See `likelyPlaces`. */
  #likely = new Int32Array(64);
  #sought: Uint8Array = new Uint8Array(64);
  #last = -1;
  /** By chain, the line that declares it: where its name starts, and the end of the line; zeros for a chain that no line declares. */
  #declarations: Int32Array<ArrayBuffer>;
  /** See `recall`. */
  readonly #places = new Map<object, readonly number[]>();
  /** The same of the dump before, and the place here of each chain of it whose rules were taken over. */
  readonly #before: {readonly found: ReadonlyMap<object, readonly number[]>; readonly places: Int32Array} | null;

  /** The name of `table` may become known only when the whole dump has been read. It will have about as many chains as `like`. */
  constructor(bytes: Buffer, table: TableOfChains, like: ChainTable | null) {
    this.bytes = bytes;
    this.table = table;
    this.#rows = new Int32Array((like === null ? 64 : like.size + 64) * ROW);
    this.#slots = new Int32Array(like === null ? 128 : like.#slots.length);
    this.#declarations = new Int32Array(2 * (like === null ? 64 : like.size + 64));
    this.#before = like === null ? null : {found: like.#places, places: new Int32Array(like.size).fill(-1)};
  }

  get(name: string): DumpChain | undefined {
    return this.at(this.placeOf(name));
  }

  placeOf(name: string): number {
    if (name.length > this.#sought.length) this.#sought = new Uint8Array(2 * name.length);
    for (let at = 0; at < name.length; at++) {
      const code = name.charCodeAt(at);
      if (code > 0xff) return -1;
      this.#sought[at] = code;
    }
    return (this.#slots[this.#slotOf(this.#sought, 0, name.length)] ?? 0) - 1;
  }

  /** Each column is read for all names before the next one, so that the processor waits for many reads of memory at once. */
  likelyPlaces(names: readonly string[]): Readonly<Int32Array> {
    if (this.#likely.length < names.length) this.#likely = new Int32Array(2 * names.length);
    const likely = this.#likely;
    const rows = this.#rows;
    const {bytes} = this;
    for (let at = 0; at < names.length; at++) likely[at] = hashOfName(names[at] ?? '');
    for (let at = 0; at < names.length; at++) likely[at] = this.#firstOfHash(likely[at] ?? 0);
    for (let at = 0; at < names.length; at++) {
      const place = likely[at] ?? -1;
      if (place < 0) continue;
      const name = names[at] ?? '';
      const end = rows[place * ROW + NAME_END] ?? 0;
      if (bytes[end - 1] !== name.charCodeAt(name.length - 1)) likely[at] = -1;
    }
    return likely;
  }

  at(index: number): DumpChain | undefined {
    return index < 0 || index >= this.size ? undefined : this.#object(index);
  }

  has(name: string): boolean {
    return this.placeOf(name) >= 0;
  }

  *keys(): IterableIterator<string> {
    for (let index = 0; index < this.size; index++) yield this.nameOf(index);
  }

  *values(): IterableIterator<DumpChain> {
    for (let index = 0; index < this.size; index++) yield this.#object(index);
  }

  *startingWith(...prefixes: readonly string[]): IterableIterator<DumpChain> {
    const wanted = prefixes.map(prefix => Buffer.from(prefix, 'latin1'));
    for (let index = this.#nextStartingWith(0, wanted); index < this.size; index = this.#nextStartingWith(index + 1, wanted))
      yield this.#object(index);
  }

  *notStartingWith(...prefixes: readonly string[]): IterableIterator<DumpChain> {
    const unwanted = prefixes.map(prefix => Buffer.from(prefix, 'latin1'));
    for (let index = 0; index < this.size; index++) if (!this.#startsWithAny(index, unwanted)) yield this.#object(index);
  }

  /** How many chains are objects now. */
  get asked(): number {
    return this.#asked.length;
  }

  /** Drops the objects, with their parsed rules, that were created after the first `kept`. */
  forgetAfter(kept: number, mayForget: (chain: string) => boolean): void {
    for (const index of this.#asked.splice(kept)) {
      if (mayForget(this.nameOf(index))) this.#objects.delete(index);
      else this.#asked.push(index);
    }
  }

  /** The index of the chain whose name is in these bytes of the dump; adds a new chain if necessary. */
  enter(start: number, end: number): number {
    // Rules are in the order in which the chains were declared, so it is usually the next one.
    const next = this.#last + 1;
    this.#last = next < this.size && this.#isNamed(next, this.bytes, start, end) ? next : this.#found(start, end);
    return this.#last;
  }

  /** The same for the name in a declaration, whose line ends at `lineEnd`. */
  declare(start: number, end: number, lineEnd: number): number {
    const index = this.enter(start, end);
    if (this.declarationOf(index) === 0) this.#setDeclaration(index, start, lineEnd);
    return index;
  }

  /** The index of the chain whose name is in these bytes, which may be those of another dump; -1 if there is none. */
  indexOf(bytes: Uint8Array, start: number, end: number): number {
    return (this.#slots[this.#slotOf(bytes, start, end)] ?? 0) - 1;
  }

  /** Where the name starts in the line that declares the chain; 0 if no line does. */
  declarationOf(index: number): number {
    return this.#declarations[2 * index] ?? 0;
  }

  /** The end of that line. */
  declarationEndOf(index: number): number {
    return this.#declarations[2 * index + 1] ?? 0;
  }

  /** Where its name starts and ends. */
  nameBytesOf(index: number): readonly [start: number, end: number] {
    return [this.#cell(index, NAME_START), this.#cell(index, NAME_END)];
  }

  startOf(index: number): number {
    return this.#cell(index, START);
  }

  endOf(index: number): number {
    return this.#cell(index, END);
  }

  /** Whether its rules are consecutive lines with nothing else in them. */
  isPlainRun(index: number): boolean {
    const flags = this.#cell(index, FLAGS) & (NOT_PLAIN | INCOMPLETE);
    return this.#cell(index, COUNT) > 0 && flags === 0 && !this.#laterRuns.has(index);
  }

  /**
   * Adds a chain that `other` declares in a line that this dump has `shift` bytes further on. Returns its index; -1 if there is one of the
   * name already, or `other` has a policy for it.
   */
  declareAs(other: ChainTable, index: number, shift: number): number {
    if (other.#policies.has(index)) return -1;
    const start = other.declarationOf(index) + shift;
    const length = other.#cell(index, NAME_END) - other.#cell(index, NAME_START);
    const slot = this.#slotOf(this.bytes, start, start + length, other.#cell(index, HASH));
    if (this.#slots[slot] !== 0) return -1;
    this.#last = this.#add(slot, start, start + length, other.#cell(index, HASH));
    this.#setDeclaration(this.#last, start, other.declarationEndOf(index) + shift);
    return this.#last;
  }

  /** Gives a chain without rules those of a chain of `other`, which are in this dump `shift` bytes and `lineShift` lines further on. */
  appendAs(
    index: number,
    other: ChainTable,
    otherIndex: number,
    {shift, lineShift}: {readonly shift: number; readonly lineShift: number},
  ): void {
    const rows = this.#rows;
    const row = index * ROW;
    rows[row + NAME_START] = other.#cell(otherIndex, NAME_START) + shift;
    rows[row + NAME_END] = other.#cell(otherIndex, NAME_END) + shift;
    rows[row + START] = other.#cell(otherIndex, START) + shift;
    rows[row + END] = other.#cell(otherIndex, END) + shift;
    rows[row + LINE] = other.#cell(otherIndex, LINE) + lineShift;
    rows[row + COUNT] = other.#cell(otherIndex, COUNT);
    rows[row + FLAGS] = TAKEN_OVER;
    if (this.#before !== null) this.#before.places[otherIndex] = index;
    this.ruleCount += other.#cell(otherIndex, COUNT);
    this.#last = index;
  }

  /** Whether the word at this position is the name of the chain. */
  isAt(index: number, start: number): boolean {
    const length = this.#cell(index, NAME_END) - this.#cell(index, NAME_START);
    return this.bytes[start + length] === SPACE && this.#isNamed(index, this.bytes, start, start + length);
  }

  append(index: number, rule: RuleAt): void {
    const rows = this.#rows;
    const row = index * ROW;
    const count = rows[row + COUNT] ?? 0;
    this.ruleCount++;
    if (!rule.plain) this.#noteNotPlain(index);
    // One more rule: the chain is no longer that of the dump before.
    if (count > 0) rows[row + FLAGS] = (rows[row + FLAGS] ?? 0) & ~TAKEN_OVER;
    if (count === 0) this.#begin(row, rule);
    else if ((rows[row + LINE] ?? 0) + count !== rule.line || this.#laterRuns.has(index)) return this.#appendLater(index, rule);
    rows[row + END] = rule.end;
    rows[row + COUNT] = count + 1;
  }

  setPolicy(index: number, policy: string): void {
    this.#policies.set(index, policy);
  }

  /** The dump is truncated: it does not show the rest of this chain or the later ones. */
  markIncompleteFrom(first: number): void {
    for (let index = first; index < this.size; index++) this.#flag(index, INCOMPLETE);
  }

  nameOf(index: number): string {
    return this.bytes.toString('latin1', this.#cell(index, NAME_START), this.#cell(index, NAME_END));
  }

  policyOf(index: number): string | null {
    return this.#policies.get(index) ?? null;
  }

  recall(texts: object): readonly number[] | null {
    const found = this.#before?.found.get(texts);
    if (found === undefined) return null;
    const places: number[] = [];
    for (const placeBefore of found) {
      const place = this.#before?.places[placeBefore] ?? -1;
      if (place < 0 || (this.#cell(place, FLAGS) & TAKEN_OVER) === 0) return null;
      places.push(place);
    }
    this.#places.set(texts, places);
    return places;
  }

  remember(texts: object, places: readonly number[]): void {
    this.#places.set(texts, places);
  }

  mayContain(text: string): boolean {
    return this.bytes.includes(text);
  }

  textAt(index: number): string {
    if ((this.#cell(index, FLAGS) & NOT_PLAIN) === 0 && !this.#laterRuns.has(index))
      return this.bytes.toString('latin1', this.#cell(index, START), this.#cell(index, END));
    return this.linesAt(index)
      .map(({text}) => text)
      .join('\n');
  }

  linesAt(index: number): readonly {readonly text: string; readonly line: number}[] {
    return this.#runsOf(index).flatMap(({start, end, line}) =>
      this.bytes
        .toString('utf8', start, end)
        .split('\n')
        .map((text, at) => ({text: withoutCounters(text), line: line + at})),
    );
  }

  lineAt(index: number): number | null {
    return this.#cell(index, COUNT) === 0 || this.#laterRuns.has(index) ? null : this.#cell(index, LINE);
  }

  isComplete(index: number): boolean {
    return (this.#cell(index, FLAGS) & INCOMPLETE) === 0;
  }

  ruleCountOf(index: number): number {
    const first = this.#cell(index, COUNT);
    const later = this.#laterRuns.get(index);
    return later === undefined ? first : later.reduce((sum, {count}) => sum + count, first);
  }

  #runsOf(index: number): readonly Run[] {
    const count = this.#cell(index, COUNT);
    if (count === 0) return [];
    const first = {start: this.#cell(index, START), end: this.#cell(index, END), line: this.#cell(index, LINE), count};
    return [first, ...(this.#laterRuns.get(index) ?? [])];
  }

  #found(start: number, end: number): number {
    const hash = hashOf(this.bytes, start, end);
    const slot = this.#slotOf(this.bytes, start, end, hash);
    const known = this.#slots[slot] ?? 0;
    return known > 0 ? known - 1 : this.#add(slot, start, end, hash);
  }

  #object(index: number): DumpChain {
    const known = this.#objects.get(index);
    if (known !== undefined) return known;
    const chain = new DumpChain(this, index);
    this.#objects.set(index, chain);
    this.#asked.push(index);
    return chain;
  }

  #noteNotPlain(index: number): void {
    this.isPlain = false;
    this.#flag(index, NOT_PLAIN);
  }

  #begin(row: number, {start, nameAt, line}: RuleAt): void {
    const rows = this.#rows;
    const length = (rows[row + NAME_END] ?? 0) - (rows[row + NAME_START] ?? 0);
    // A lookup by name is followed by reading the rules: the name beside them is closer in memory than that of the declaration.
    rows[row + NAME_START] = nameAt;
    rows[row + NAME_END] = nameAt + length;
    rows[row + START] = start;
    rows[row + LINE] = line;
  }

  #appendLater(index: number, {start, end, line}: RuleAt): void {
    const runs = this.#laterRuns.get(index);
    const last = runs?.at(-1);
    if (last !== undefined && last.line + last.count === line) {
      last.end = end;
      last.count++;
      return;
    }
    const run = {start, end, line, count: 1};
    if (runs === undefined) this.#laterRuns.set(index, [run]);
    else runs.push(run);
  }

  #setDeclaration(index: number, start: number, end: number): void {
    while (this.#declarations.length < 2 * index + 2) this.#declarations = doubled(this.#declarations);
    this.#declarations[2 * index] = start;
    this.#declarations[2 * index + 1] = end;
  }

  #add(slot: number, start: number, end: number, hash: number): number {
    const index = this.size++;
    if (this.#rows.length < this.size * ROW) this.#rows = doubled(this.#rows);
    const row = index * ROW;
    this.#rows[row + NAME_START] = start;
    this.#rows[row + NAME_END] = end;
    this.#rows[row + HASH] = hash;
    this.#slots[slot] = index + 1;
    if (this.#slots.length < 2 * this.size) this.#rehash();
    return index;
  }

  #rehash(): void {
    const slots = new Int32Array(2 * this.#slots.length);
    for (let index = 0; index < this.size; index++) {
      let slot = this.#cell(index, HASH) & (slots.length - 1);
      while (slots[slot] !== 0) slot = (slot + 1) & (slots.length - 1);
      slots[slot] = index + 1;
    }
    this.#slots = slots;
  }

  /** The slot of the chain with this name, or the slot that it would have. */
  #slotOf(bytes: Uint8Array, start: number, end: number, hash = hashOf(bytes, start, end)): number {
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    for (let known = this.#slots[slot] ?? 0; known !== 0; known = this.#slots[slot] ?? 0) {
      if (this.#cell(known - 1, HASH) === hash && this.#isNamed(known - 1, bytes, start, end)) return slot;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  /** The index of a chain whose name has this hash; -1 if there is none. */
  #firstOfHash(hash: number): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let slot = hash & mask;
    while (slots[slot] !== 0 && this.#cell((slots[slot] ?? 0) - 1, HASH) !== hash) slot = (slot + 1) & mask;
    return (slots[slot] ?? 0) - 1;
  }

  #isNamed(index: number, bytes: Uint8Array, start: number, end: number): boolean {
    const own = this.#cell(index, NAME_START);
    const length = end - start;
    if (this.#cell(index, NAME_END) - own !== length) return false;
    for (let at = 0; at < length; at++) if (this.bytes[own + at] !== bytes[start + at]) return false;
    return true;
  }

  /** The index from `start` on of a chain whose name begins with one of these; `size` if there is none. */
  #nextStartingWith(start: number, prefixes: readonly Uint8Array[]): number {
    let index = start;
    while (index < this.size && !this.#startsWithAny(index, prefixes)) index++;
    return index;
  }

  #startsWithAny(index: number, prefixes: readonly Uint8Array[]): boolean {
    for (const prefix of prefixes) if (this.#startsWith(index, prefix)) return true;
    return false;
  }

  /** From the end of the prefix, as nearly all names begin with `KUBE-`. */
  #startsWith(index: number, prefix: Uint8Array): boolean {
    const own = this.#cell(index, NAME_START);
    if (this.#cell(index, NAME_END) - own < prefix.length) return false;
    for (let at = prefix.length - 1; at >= 0; at--) if (this.bytes[own + at] !== prefix[at]) return false;
    return true;
  }

  #cell(index: number, column: number): number {
    return this.#rows[index * ROW + column] ?? 0;
  }

  #flag(index: number, flag: number): void {
    this.#rows[index * ROW + FLAGS] = this.#cell(index, FLAGS) | flag;
  }
}

function withoutCounters(line: string): string {
  const text = line.trim();
  return text.startsWith('[') ? text.replace(/^\[\d+:\d+\]\s*/, '') : text;
}

function doubled(rows: Int32Array): Int32Array<ArrayBuffer> {
  const more = new Int32Array(2 * rows.length);
  more.set(rows);
  return more;
}

/** FNV-1a, with the high bits mixed into the low ones, which choose the slot. */
function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0x811c9dc5;
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ (bytes[at] ?? 0), 0x01000193);
  return hash ^ (hash >>> 15);
}

/** The same of a name that is a string. */
function hashOfName(name: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193);
  return hash ^ (hash >>> 15);
}
