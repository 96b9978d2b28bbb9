/** Splits output that arrives in parts into lines, and keeps no more than the current incomplete line. */
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
    // Only ASCII is searched for in these lines: every byte can be one character.
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

/** Copies the part of a line that is kept. A slice would keep everything in memory that arrived with the line. */
export function detached(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

const newline = 10;

/** The number of a last line without a newline, which may be incomplete. Null if there is none; all tools end their last line. */
export function truncatedLine(text: string): number | null {
  return text === '' || text.endsWith('\n') ? null : text.split('\n').length;
}
