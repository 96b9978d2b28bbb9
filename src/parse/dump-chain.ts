import type {Chain, Rule} from '../model/ruleset.ts';
import {parseRule} from './rule.ts';

/** A run of lines of one chain that stand together in the dump: byte offsets, and the number of the first line. */
interface Segment {
  readonly start: number;
  end: number;
  readonly line: number;
  count: number;
}

/** A chain as it stands in a dump: offsets into the bytes, so that a rule costs nothing until somebody asks for it. */
export class DumpChain implements Chain {
  readonly name: string;
  policy: string | null = null;
  complete = true;
  ruleCount = 0;
  readonly #bytes: Buffer;
  readonly #owner: {readonly name: string};
  /** False once a rule came with counters or indented: then its bytes are not its text. */
  #plain = true;
  #first: Segment | null = null;
  #more: Segment[] | null = null;
  #rules: readonly Rule[] | null = null;

  /** `owner` is the table, whose name may be found out only when the whole dump has been read. */
  constructor(bytes: Buffer, owner: {readonly name: string}, name: string) {
    this.#bytes = bytes;
    this.#owner = owner;
    this.name = name;
  }

  get table(): string {
    return this.#owner.name;
  }

  /** Takes in the rule in bytes `start` to `end` (the end of its line, without the newline). */
  append(start: number, end: number, line: number, plain: boolean): void {
    this.ruleCount++;
    if (!plain) this.#plain = false;
    const last = this.#more?.at(-1) ?? this.#first;
    if (last !== null && last.line + last.count === line) {
      last.end = end;
      last.count++;
      return;
    }
    const segment = {start, end, line, count: 1};
    if (this.#first === null) {
      this.#first = segment;
      return;
    }
    this.#more ??= [];
    this.#more.push(segment);
  }

  text(): string {
    if (this.#plain && this.#more === null)
      return this.#first === null ? '' : this.#bytes.toString('latin1', this.#first.start, this.#first.end);
    return this.#lines()
      .map(line => line.text)
      .join('\n');
  }

  rules(): readonly Rule[] {
    this.#rules ??= this.#lines().map(({text, line}) => parseRule(text, {table: this.table, chain: this.name, line}));
    return this.#rules;
  }

  #lines(): readonly {readonly text: string; readonly line: number}[] {
    return this.#segments().flatMap(segment =>
      this.#bytes
        .toString('utf8', segment.start, segment.end)
        .split('\n')
        .map((text, index) => ({text: withoutCounters(text), line: segment.line + index})),
    );
  }

  #segments(): readonly Segment[] {
    return this.#first === null ? [] : [this.#first, ...(this.#more ?? [])];
  }
}

function withoutCounters(line: string): string {
  return line.trim().replace(/^\[\d+:\d+\]\s*/, '');
}
