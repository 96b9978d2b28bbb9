/** Cuts output that comes part by part into lines, and keeps no more of it than the line that is not complete yet. */
export class LineSplitter {
  readonly #take: (line: string) => void;
  #rest: Buffer = Buffer.alloc(0);

  constructor(take: (line: string) => void) {
    this.#take = take;
  }

  add(part: Buffer): void {
    const last = part.lastIndexOf(newline);
    if (last < 0) {
      this.#rest = this.#rest.length === 0 ? Buffer.from(part) : Buffer.concat([this.#rest, part]);
      return;
    }
    // What is looked for in these lines is ASCII: every byte may be one character.
    const text = this.#rest.toString('latin1') + part.toString('latin1', 0, last);
    this.#rest = Buffer.from(part.subarray(last + 1));
    for (let start = 0; start <= text.length; ) {
      const end = text.indexOf('\n', start);
      this.#take(end < 0 ? text.slice(start) : text.slice(start, end));
      if (end < 0) return;
      start = end + 1;
    }
  }

  /** The last line may have no newline. */
  end(): void {
    if (this.#rest.length > 0) this.#take(this.#rest.toString('latin1'));
    this.#rest = Buffer.alloc(0);
  }
}

/** A part of a line that is kept. As it is, it would keep everything in memory that came with the line. */
export function detached(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

const newline = 10;
