import type {ChainsByName} from '../../model/ruleset.ts';
import {pushTo} from '../../model/lists.ts';
import {ChainRows, COUNT, END, NAME, ROW, START} from '../chain-list.ts';
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

/** The number in the row of a chain that only these dumps have: the line of its first rule. */
const LINE = 4;

const SPACE = 0x20;

/** The chains of one table of a dump of iptables-save. */
export class ChainTable extends ChainRows<DumpChain, Run> implements ChainsByName {
  readonly table: TableOfChains;
  /** Each rule is all of its line: none has counters or is indented. */
  isPlain = true;
  readonly #policies = new Map<number, string>();
  /** The chains that became objects, in the order of their requests. */
  readonly #asked: number[] = [];

  /** The name of `table` may become known only when the whole dump has been read. */
  constructor(bytes: Buffer, table: TableOfChains) {
    super(bytes);
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
    const next = this.last + 1;
    this.last = next < this.size && this.isAt(next, start) ? next : this.enterAt(this.bytes.toString('latin1', start, end), start);
    return this.last;
  }

  /** Whether the word at this position is the name of the chain. */
  isAt(index: number, start: number): boolean {
    const {bytes} = this;
    const own = this.cell(index, NAME);
    const length = this.nameOf(index).length;
    if (bytes[start + length] !== SPACE) return false;
    for (let at = length - 1; at >= 0; at--) if (bytes[own + at] !== bytes[start + at]) return false;
    return true;
  }

  append(index: number, rule: RuleAt): void {
    const row = index * ROW;
    const rows = this.rows;
    const count = rows[row + COUNT] ?? 0;
    this.ruleCount++;
    if (!rule.plain) this.isPlain = false;
    if (count === 0) {
      rows[row + NAME] = rule.nameAt;
      rows[row + START] = rule.start;
      rows[row + LINE] = rule.line;
    } else if ((rows[row + LINE] ?? 0) + count !== rule.line || this.laterRuns.has(index)) return this.#appendLater(index, rule);
    rows[row + END] = rule.end;
    rows[row + COUNT] = count + 1;
  }

  setPolicy(index: number, policy: string): void {
    this.#policies.set(index, policy);
  }

  /** The dump is truncated: it does not show the rest of this chain or the later ones. */
  markIncompleteFrom(first: number): void {
    this.firstIncomplete = Math.min(this.firstIncomplete, first);
  }

  policyOf(index: number): string | null {
    return this.#policies.get(index) ?? null;
  }

  mayContain(text: string): boolean {
    return this.bytes.includes(text);
  }

  textAt(index: number): string {
    if (this.isPlain && !this.laterRuns.has(index)) return this.bytes.toString('latin1', this.cell(index, START), this.cell(index, END));
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
    return this.cell(index, COUNT) === 0 || this.laterRuns.has(index) ? null : this.cell(index, LINE);
  }

  #runsOf(index: number): readonly Run[] {
    const count = this.cell(index, COUNT);
    if (count === 0) return [];
    const first = {start: this.cell(index, START), end: this.cell(index, END), line: this.cell(index, LINE), count};
    return [first, ...(this.laterRuns.get(index) ?? [])];
  }

  #appendLater(index: number, {start, end, line}: RuleAt): void {
    const last = this.laterRuns.get(index)?.at(-1);
    if (last !== undefined && last.line + last.count === line) {
      last.end = end;
      last.count++;
      return;
    }
    pushTo(this.laterRuns, index, {start, end, line, count: 1});
  }
}

function withoutCounters(line: string): string {
  const text = line.trim();
  return text.startsWith('[') ? text.replace(/^\[\d+:\d+\]\s*/, '') : text;
}
