import {endOfHandle, objectEnd, JsonChainCheck} from './nft-json-bytes.ts';
import type {NftChain, NftHook, NftJsonCheck} from '../../model/nft-ruleset.ts';
import {pushTo} from '../../model/lists.ts';
import {ChainRows, COUNT, END, NAME, ROW, START} from '../chain-list.ts';
import type {TableChains} from './nft-elements.ts';
import {JsonChain, type RuleRun} from './nft-json-chain.ts';

/**
 * The number in the row of a chain that only these dumps have: the length of each rule of the first run up to the end of the chain's name.
 * These bytes are the same in all of them. The place of a name that is escaped in the bytes is 0.
 */
const HEAD = 4;
const [SPACE, QUOTE, COMMA, BACKSLASH, CLOSE] = [0x20, 0x22, 0x2c, 0x5c, 0x7d];

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

/** How the objects of one kind in a table begin, up to the name of the chain: where such bytes are, and how many. */
export interface HeadBytes {
  readonly start: number;
  readonly length: number;
}

/** The numbers of each run that `readRuns` finds: where it starts and ends, how many rules it has, and where the name ends in the first. */
const RUN_ROW = 4;

/**
 * Reads consecutive chains that begin like this, and have nothing but a name and a handle: nearly all of a large table. Adds where the name
 * of each starts and ends to `found`. Returns where the last one ends; -1 if there is none.
 */
export function readPlainChains(bytes: Buffer, from: number, {start: head, length}: HeadBytes, found: number[]): number {
  let last = -1;
  for (let start = from; isSame(bytes, start, head, length); start = last + ', '.length) {
    const nameEnd = plainNameEnd(bytes, start + length);
    const end = nameEnd < 0 ? -1 : endOfHandle(bytes, nameEnd);
    if (end < 0 || bytes[end] !== CLOSE || bytes[end + 1] !== CLOSE) return last;
    found.push(start + length, nameEnd);
    last = end + 2;
    if (bytes[last] !== COMMA || bytes[last + 1] !== SPACE) return last;
  }
  return last;
}

/**
 * Reads consecutive rules that begin like this. Rules of one chain in a row are a run. Returns where the last one ends; -1 if the first one
 * begins in another way, or is truncated.
 */
export function readRuns(bytes: Buffer, from: number, {start: head, length}: HeadBytes, found: number[]): number {
  let last = -1;
  let [run, runStart, runHead] = [-RUN_ROW, 0, 0];
  for (let start = from; ; start = last + ', '.length) {
    const isNew = runHead === 0 || !isSame(bytes, start, runStart, runHead);
    const nameEnd = isNew ? nameEndAfter(bytes, start, head, length) : start + runHead - 1;
    // Each brace is counted: a damaged rule must not be taken for a whole one.
    const end = nameEnd < 0 ? -1 : objectEnd(bytes, nameEnd + 1, bracesBeforeName);
    if (end < 0) return last;
    if (isNew) {
      run += RUN_ROW;
      runStart = start;
      // With the quote: another name may begin with this one.
      runHead = nameEnd + 1 - start;
      found.push(start, end, 1, nameEnd);
    } else {
      found[run + 1] = end;
      found[run + 2] = (found[run + 2] ?? 0) + 1;
    }
    last = end;
    if (bytes[end] !== COMMA || bytes[end + 1] !== SPACE) return last;
  }
}

/** The position of the quote after the name of the chain; -1 if the object begins in another way. */
function nameEndAfter(bytes: Buffer, start: number, head: number, length: number): number {
  return isSame(bytes, start, head, length) ? plainNameEnd(bytes, start + length) : -1;
}

/** Whether so many bytes from `start` and from `before` are the same. From the end, as the names of chains differ there. */
function isSame(bytes: Buffer, start: number, before: number, length: number): boolean {
  for (let at = length - 1; at >= 0; at--) if (bytes[start + at] !== bytes[before + at]) return false;
  return true;
}

/** The position of the quote after a name; -1 if the name is not plain ASCII. */
export function plainNameEnd(bytes: Buffer, from: number): number {
  const {length} = bytes;
  for (let at = from; at < length; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH || byte >= 0x80) return -1;
  }
  return -1;
}

/** Those of the object and of the rule in it. */
const bracesBeforeName = 2;
