import type {ChainTable} from './chain-table.ts';

/**
 * The same table in the dump of another node, while a dump is read. Most chains of a cluster are the same on each node. Lines that are,
 * byte for byte, those of the other dump are taken over from there in one piece: their chains are where they were, moved by the same number
 * of bytes and lines. What differs is read line by line, as without another dump.
 */
export class TableBefore {
  /** After lines were taken over: the end of the last one, without the newline. */
  end = 0;
  /** Their number. */
  lines = 0;
  /** The chain of the last one. */
  lastChain = -1;
  readonly #before: ChainTable;
  readonly #now: ChainTable;
  /** The chain of the other dump whose declaration should be next. */
  #next = 0;

  constructor(before: ChainTable, now: ChainTable) {
    this.#before = before;
    this.#now = now;
  }

  /** Takes over the declarations from the one on whose name starts here; false if not even that one is the next of the other dump. */
  takeDeclarations(nameAt: number): boolean {
    const before = this.#before;
    const first = this.#next;
    const startBefore = before.declarationOf(first);
    if (first >= before.size || startBefore === 0) return false;
    const shift = nameAt - startBefore;
    const count = this.#countEqual(before.endOfDeclarations(first) - first, shift, index =>
      index === 0 ? startBefore : before.declarationEndOf(first + index - 1) + 1,
    );
    const taken = this.#now.declareAs(before, {first, count}, shift);
    if (taken === 0) return false;
    this.#next = first + taken;
    this.end = before.declarationEndOf(this.#next - 1) + shift;
    this.lines = taken;
    return true;
  }

  /** A chain that this dump declares was read by itself: the next declaration of the other dump is that after the same chain. */
  noteDeclaration(index: number, start: number, end: number): void {
    const found = this.#before.indexOf(this.#now.bytes, start, end);
    if (found < 0) return;
    this.#now.indexes[found] = index;
    this.#next = found + 1;
  }

  /** Takes over the rules from the line on that starts here, the first of this chain; false if not even those of this chain are the same. */
  takeRules(chain: number, start: number, line: number): boolean {
    const before = this.#before;
    const first = this.#indexBefore(chain);
    if (first < 0 || this.#now.ruleCountOf(chain) > 0) return false;
    const startBefore = before.startOf(first);
    const shift = start - startBefore;
    const count = this.#countEqual(before.endOfPlainRun(first) - first, shift, index =>
      index === 0 ? startBefore : before.endOf(first + index - 1) + 1,
    );
    const taken = this.#now.appendAs(before, {first, count}, {shift, lineShift: line - (before.lineAt(first) ?? 0)});
    if (taken === 0) return false;
    this.lastChain = this.#now.indexes[first + taken - 1] ?? -1;
    this.lines = before.linesOf(first, taken);
    this.end = before.endOf(first + taken - 1) + shift;
    return true;
  }

  #indexBefore(chain: number): number {
    const found = this.#before.indexOf(this.#now.bytes, ...this.#now.nameBytesOf(chain));
    if (found >= 0) this.#now.indexes[found] = chain;
    return found;
  }

  /**
   * How many of some consecutive pieces of the other dump are in this one, `shift` bytes further on. `startOf` is where a piece starts in
   * the other dump, and with its newline the one before ends. More and more pieces are compared at a time, then fewer and fewer.
   */
  #countEqual(pieces: number, shift: number, startOf: (piece: number) => number): number {
    let equal = 0;
    let isGrowing = true;
    for (let step = 1; step > 0 && equal < pieces; step = isGrowing ? 2 * step : step >> 1) {
      const next = Math.min(equal + step, pieces);
      if (this.#isEqual(startOf(equal), startOf(next), shift)) equal = next;
      else isGrowing = false;
    }
    return equal;
  }

  #isEqual(start: number, end: number, shift: number): boolean {
    const {bytes} = this.#now;
    if (end > this.#before.bytes.length || end + shift > bytes.length) return false;
    return this.#before.bytes.compare(bytes, start + shift, end + shift, start, end) === 0;
  }
}
