import type {ChainsByName} from '../../model/ruleset.ts';
import {ChainList} from '../chain-list.ts';
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

/** The numbers stored for each chain, in a row: where its name is in the dump, and its first run of rules. */
const NAME = 0;
const START = 1;
const END = 2;
const LINE = 3;
const COUNT = 4;
const ROW = 5;

const SPACE = 0x20;

/**
 * The chains of one table of a dump, in its order. A large node has a quarter of a million, most of which are compared as text and never
 * used again. So a chain is a row of offsets into the bytes of the dump, and becomes an object on demand.
 */
export class ChainTable extends ChainList<DumpChain> implements ChainsByName {
  readonly bytes: Buffer;
  readonly table: TableOfChains;
  /** Of all chains. */
  ruleCount = 0;
  /** Each rule is all of its line: none has counters or is indented. */
  isPlain = true;
  #rows = new Int32Array(0);
  readonly #policies = new Map<number, string>();
  /** Further runs of a chain. They are rare: rules of one chain are nearly always consecutive. */
  readonly #laterRuns = new Map<number, Run[]>();
  /** The chains that became objects, in the order of their requests. */
  readonly #asked: number[] = [];
  #last = -1;
  #firstIncomplete = Number.POSITIVE_INFINITY;

  /** The name of `table` may become known only when the whole dump has been read. */
  constructor(bytes: Buffer, table: TableOfChains) {
    super();
    this.bytes = bytes;
    this.table = table;
  }

  protected override create(index: number): DumpChain {
    this.#asked.push(index);
    return new DumpChain(this, index);
  }

  /** How many chains are objects now. */
  get asked(): number {
    return this.#asked.length;
  }

  /** Drops the objects, with their parsed rules, that were created after the first `kept`. */
  forgetAfter(kept: number, mayForget: (chain: string) => boolean): void {
    for (const index of this.#asked.splice(kept)) {
      if (mayForget(this.nameOf(index))) this.forget(index);
      else this.#asked.push(index);
    }
  }

  /** The index of the chain whose name is in these bytes of the dump; adds a new chain if necessary. */
  enter(start: number, end: number): number {
    // Rules are in the order in which the chains were declared, so it is usually the next one, and needs no string.
    const next = this.#last + 1;
    this.#last = next < this.size && this.isAt(next, start) ? next : this.#enterName(this.bytes.toString('latin1', start, end), start);
    return this.#last;
  }

  /** Whether the word at this position is the name of the chain. */
  isAt(index: number, start: number): boolean {
    const {bytes} = this;
    const own = this.#cell(index, NAME);
    const length = this.nameOf(index).length;
    if (bytes[start + length] !== SPACE) return false;
    for (let at = length - 1; at >= 0; at--) if (bytes[own + at] !== bytes[start + at]) return false;
    return true;
  }

  append(index: number, rule: RuleAt): void {
    const row = index * ROW;
    const rows = this.#rows;
    const count = rows[row + COUNT] ?? 0;
    this.ruleCount++;
    if (!rule.plain) this.isPlain = false;
    if (count === 0) {
      rows[row + NAME] = rule.nameAt;
      rows[row + START] = rule.start;
      rows[row + LINE] = rule.line;
    } else if ((rows[row + LINE] ?? 0) + count !== rule.line || this.#laterRuns.has(index)) return this.#appendLater(index, rule);
    rows[row + END] = rule.end;
    rows[row + COUNT] = count + 1;
  }

  setPolicy(index: number, policy: string): void {
    this.#policies.set(index, policy);
  }

  /** The dump is truncated: it does not show the rest of this chain or the later ones. */
  markIncompleteFrom(first: number): void {
    this.#firstIncomplete = Math.min(this.#firstIncomplete, first);
  }

  policyOf(index: number): string | null {
    return this.#policies.get(index) ?? null;
  }

  mayContain(text: string): boolean {
    return this.bytes.includes(text);
  }

  textAt(index: number): string {
    if (this.isPlain && !this.#laterRuns.has(index)) return this.bytes.toString('latin1', this.#cell(index, START), this.#cell(index, END));
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
    return index < this.#firstIncomplete;
  }

  ruleCountOf(index: number): number {
    const later = this.#laterRuns.get(index) ?? [];
    return later.reduce((sum, {count}) => sum + count, this.#cell(index, COUNT));
  }

  #enterName(name: string, start: number): number {
    const before = this.size;
    const index = this.placeFor(name);
    if (index < before) return index;
    if (this.#rows.length < (index + 1) * ROW) {
      const more = new Int32Array(Math.max(64 * ROW, 2 * this.#rows.length));
      more.set(this.#rows);
      this.#rows = more;
    }
    this.#rows[index * ROW + NAME] = start;
    return index;
  }

  #runsOf(index: number): readonly Run[] {
    const count = this.#cell(index, COUNT);
    if (count === 0) return [];
    const first = {start: this.#cell(index, START), end: this.#cell(index, END), line: this.#cell(index, LINE), count};
    return [first, ...(this.#laterRuns.get(index) ?? [])];
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

  #cell(index: number, column: number): number {
    return this.#rows[index * ROW + column] ?? 0;
  }
}

function withoutCounters(line: string): string {
  const text = line.trim();
  return text.startsWith('[') ? text.replace(/^\[\d+:\d+\]\s*/, '') : text;
}
