import {wrap} from '../../render/wrap.ts';

export interface HelpLayout {
  /** The program as users call it. */
  readonly bin: string;
  /** Columns of the terminal. */
  readonly width: number;
}

/** A flag, argument or command, indented, and what is said about it. */
export interface HelpRow {
  readonly head: string;
  readonly text: string;
}

/** In columns. Longer lines are hard to read. */
export function helpWidth({width}: HelpLayout): number {
  return Math.min(width, 100);
}

/** Two columns. If a head is too long for the first, its text starts on the next line. */
export function rowLines(rows: readonly HelpRow[], width: number): readonly string[] {
  const column = Math.min(Math.max(...rows.map(({head}) => head.length)) + 2, maxHead);
  return rows.flatMap(({head, text}) => {
    if (head.length + 2 <= column) return wrap(text, width, head.padEnd(column));
    return [head, ...wrap(text, width, ' '.repeat(column))];
  });
}

const maxHead = 34;
