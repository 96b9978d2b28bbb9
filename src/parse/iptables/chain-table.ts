import type {ChainsByName} from '../../model/ruleset.ts';
import {doubled} from '../chain-hash.ts';
import {
  type ChainRun,
  ChainRows,
  COUNT,
  END,
  FLAGS,
  INCOMPLETE,
  LINE,
  NOT_PLAIN,
  type Shift,
  SPLIT,
  START,
  TAKEN_OVER,
} from './chain-rows.ts';
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

/**
 * The chains of one table of a dump, in its order. A large node has a quarter of a million, most of which are compared as text and never
 * used again. So a chain is a row of offsets into the bytes of the dump, found by the hash of its name, and becomes an object on demand.
 */
export class ChainTable implements ChainsByName {
  readonly bytes: Buffer;
  readonly table: TableOfChains;
  /** Of all chains. */
  ruleCount = 0;
  /** Each rule is all of its line: none has counters or is indented. */
  isPlain = true;
  readonly #rows: ChainRows;
  readonly #policies = new Map<number, string>();
  /** Further runs of a chain. They are rare: rules of one chain are nearly always consecutive. */
  readonly #laterRuns = new Map<number, Run[]>();
  readonly #objects = new Map<number, DumpChain>();
  /** The chains that became objects, in the order of their requests. */
  readonly #asked: number[] = [];
  #last = -1;
  /** By chain, the line that declares it: where its name starts, and the end of the line; zeros for a chain that no line declares. */
  #declarations: Int32Array<ArrayBuffer>;
  /** As many of the first chains are declared in consecutive lines. */
  #declaredInLine = 0;
  /** See `recall`. */
  readonly #places = new Map<object, readonly number[]>();
  /** The same of the dump before. */
  readonly #placesBefore: ReadonlyMap<object, readonly number[]> | null;
  /** By chain of the dump before, its index here; -1 if it is not known. */
  readonly indexes: Int32Array<ArrayBuffer>;

  /** The name of `table` may become known only when the whole dump has been read. It will have about as many chains as `like`. */
  constructor(bytes: Buffer, table: TableOfChains, like: ChainTable | null) {
    this.bytes = bytes;
    this.table = table;
    this.#rows = new ChainRows(bytes, like === null ? null : like.#rows);
    this.#declarations = new Int32Array(2 * (like === null ? 64 : like.size + 64));
    this.#placesBefore = like === null ? null : like.#places;
    this.indexes = new Int32Array(like === null ? 0 : like.size).fill(-1);
  }

  get size(): number {
    return this.#rows.size;
  }

  get(name: string): DumpChain | undefined {
    return this.at(this.placeOf(name));
  }

  placeOf(name: string): number {
    return this.#rows.placeOf(name);
  }

  likelyPlaces(names: readonly string[]): Readonly<Int32Array> {
    return this.#rows.likelyPlaces(names);
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
    for (let index = this.#rows.nextStartingWith(0, wanted); index < this.size; index = this.#rows.nextStartingWith(index + 1, wanted))
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
    this.#last = next < this.size && this.#rows.isNamed(next, this.bytes, start, end) ? next : this.#rows.enter(start, end);
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
    return this.#rows.indexOf(bytes, start, end);
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
    return this.#rows.nameBytesOf(index);
  }

  startOf(index: number): number {
    return this.#cell(index, START);
  }

  endOf(index: number): number {
    return this.#cell(index, END);
  }

  /** The end of the chains from this one on that are declared in consecutive lines, none with a policy. */
  endOfDeclarations(first: number): number {
    let end = first < this.#declaredInLine ? this.#declaredInLine : first + 1;
    for (const index of this.#policies.keys()) if (index >= first && index < end) end = index;
    return end;
  }

  /** The end of the chains from this one on whose rules are consecutive lines that are only rules. */
  endOfPlainRun(first: number): number {
    return this.#rows.endOfPlainRun(first);
  }

  /**
   * Adds chains that `other` declares in lines that this dump has `shift` bytes further on. Returns how many: it ends before a chain whose
   * name there is already.
   */
  declareAs(other: ChainTable, run: ChainRun, shift: number): number {
    const start = this.size;
    const count = this.#rows.addAll(other.#rows, run, other.#declarations, shift);
    while (this.#declarations.length < 2 * this.size) this.#declarations = doubled(this.#declarations);
    const [from, to, {indexes}] = [other.#declarations, this.#declarations, this];
    for (let added = 0; added < count; added++) {
      indexes[run.first + added] = start + added;
      to[2 * (start + added)] = (from[2 * (run.first + added)] ?? 0) + shift;
      to[2 * (start + added) + 1] = (from[2 * (run.first + added) + 1] ?? 0) + shift;
    }
    if (count > 0 && this.#isNextInLine(start)) this.#declaredInLine += count;
    this.#last = this.size - 1;
    return count;
  }

  /**
   * Gives chains without rules those of chains of `other`, which are in this dump `shift` bytes and `lineShift` lines further on. Returns how
   * many: it ends before a chain that is not known here or has rules.
   */
  appendAs(other: ChainTable, {first, count}: ChainRun, shift: Shift): number {
    const taken = this.#rows.takeRules(other.#rows, {first, count}, shift, this.indexes);
    if (taken > 0) this.#last = this.indexes[first + taken - 1] ?? -1;
    this.ruleCount += other.linesOf(first, taken);
    return taken;
  }

  /** The number of lines from the first rule of a chain to the last one of `count` chains, whose rules are consecutive lines. */
  linesOf(first: number, count: number): number {
    const last = first + count - 1;
    return count === 0 ? 0 : this.#cell(last, LINE) + this.#cell(last, COUNT) - this.#cell(first, LINE);
  }

  /** Whether the word at this position is the name of the chain. */
  isAt(index: number, start: number): boolean {
    return this.#rows.isAt(index, start);
  }

  append(index: number, rule: RuleAt): void {
    const count = this.#cell(index, COUNT);
    this.ruleCount++;
    if (!rule.plain) this.#noteNotPlain(index);
    // One more rule: the chain is no longer that of the dump before.
    if (count > 0) this.#rows.setCell(index, FLAGS, this.#cell(index, FLAGS) & ~TAKEN_OVER);
    if (count === 0) this.#begin(index, rule);
    else if (this.#cell(index, LINE) + count !== rule.line || this.#laterRuns.has(index)) return this.#appendLater(index, rule);
    this.#rows.setCell(index, END, rule.end);
    this.#rows.setCell(index, COUNT, count + 1);
  }

  setPolicy(index: number, policy: string): void {
    this.#policies.set(index, policy);
  }

  /** The dump is truncated: it does not show the rest of this chain or the later ones. */
  markIncompleteFrom(first: number): void {
    for (let index = first; index < this.size; index++) this.#flag(index, INCOMPLETE);
  }

  nameOf(index: number): string {
    return this.#rows.nameOf(index);
  }

  policyOf(index: number): string | null {
    return this.#policies.get(index) ?? null;
  }

  recall(texts: object): readonly number[] | null {
    const found = this.#placesBefore?.get(texts);
    if (found === undefined) return null;
    const places: number[] = [];
    for (const placeBefore of found) {
      const place = this.indexes[placeBefore] ?? -1;
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
    if ((this.#cell(index, FLAGS) & (NOT_PLAIN | SPLIT)) === 0)
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

  #begin(index: number, {start, nameAt, line}: RuleAt): void {
    // A lookup by name is followed by reading the rules: the name beside them is closer in memory than that of the declaration.
    this.#rows.moveName(index, nameAt);
    this.#rows.setCell(index, START, start);
    this.#rows.setCell(index, LINE, line);
  }

  #appendLater(index: number, {start, end, line}: RuleAt): void {
    const runs = this.#laterRuns.get(index);
    const last = runs?.at(-1);
    if (last !== undefined && last.line + last.count === line) {
      last.end = end;
      last.count++;
      return;
    }
    this.#flag(index, SPLIT);
    const run = {start, end, line, count: 1};
    if (runs === undefined) this.#laterRuns.set(index, [run]);
    else runs.push(run);
  }

  #setDeclaration(index: number, start: number, end: number): void {
    while (this.#declarations.length < 2 * index + 2) this.#declarations = doubled(this.#declarations);
    this.#declarations[2 * index] = start;
    this.#declarations[2 * index + 1] = end;
    if (this.#isNextInLine(index)) this.#declaredInLine++;
  }

  /** Between the end of a line and the next name are a newline and a colon. */
  #isNextInLine(index: number): boolean {
    return index === this.#declaredInLine && (index === 0 || this.declarationOf(index) === this.declarationEndOf(index - 1) + 2);
  }

  #startsWithAny(index: number, prefixes: readonly Uint8Array[]): boolean {
    for (const prefix of prefixes) if (this.#rows.startsWith(index, prefix)) return true;
    return false;
  }

  #cell(index: number, column: number): number {
    return this.#rows.cell(index, column);
  }

  #flag(index: number, flag: number): void {
    this.#rows.setCell(index, FLAGS, this.#cell(index, FLAGS) | flag);
  }
}

function withoutCounters(line: string): string {
  const text = line.trim();
  return text.startsWith('[') ? text.replace(/^\[\d+:\d+\]\s*/, '') : text;
}
