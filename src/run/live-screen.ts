import process from 'node:process';
import {byWord} from '../model/lists.ts';

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

/**
 * `linesOf` returns the lines to draw, no more and no longer than the size. `draw` does nothing once the screen is closed. `close` leaves the
 * last answer behind, if there is one: the screen is gone with the terminal's other screen.
 */
export function liveScreen(stream: NodeJS.WriteStream, linesOf: (size: ScreenSize) => readonly string[]) {
  let open = true;
  const draw = (): void => {
    if (!open) return;
    const lines = linesOf(screenSize(stream));
    stream.write(`${home}${lines.map(line => line + toLineEnd).join('\n')}${toScreenEnd}`);
  };
  const end = (): void => {
    open = false;
    stream.off('resize', draw);
    process.off('exit', end);
    stream.write(leave);
  };
  const close = (answer: string | null): void => {
    if (!open) return;
    end();
    if (answer !== null) stream.write(`${answer}\n`);
  };
  stream.write(enter);
  stream.on('resize', draw);
  process.on('exit', end);
  return {draw, close};
}

/** The size of a terminal; a usual one where it is not known. */
export function screenSize(stream: NodeJS.WriteStream): ScreenSize {
  return {columns: stream.columns || 80, rows: stream.rows || 24};
}

/** Escape sequences of a screen that redraws itself: the alternate screen with the cursor hidden, and back. */
const enter = '\u001b[?1049h\u001b[?25l';
const leave = '\u001b[?25h\u001b[?1049l';
const home = '\u001b[H';
/** Clear to the end of the line, and of the screen. */
const toLineEnd = '\u001b[K';
const toScreenEnd = '\u001b[J';

/** Keys that move what is shown, by the names that they have on a keyboard. */
export type ScrollKey = 'up' | 'down' | 'pageUp' | 'pageDown' | 'home' | 'end';

interface KeyActions {
  /** Gets each key first, except Ctrl-C; true if it was for it. */
  readonly take?: (key: string) => boolean;
  readonly end: () => void;
  readonly interrupt: () => void;
  readonly scroll?: (key: ScrollKey) => void;
}

/**
 * Calls `end` for `q`, and `interrupt` for Ctrl-C, which a terminal in raw mode hands on as a character. Returns what ends it, or null
 * where there is no keyboard to listen to.
 */
export function listenForKeys({take: takeKey, end, interrupt, scroll}: KeyActions, input = process.stdin): (() => void) | null {
  if (input.isTTY !== true) return null;
  const take = (data: Buffer): void => {
    // What is typed quickly, or pasted, comes in one piece.
    for (const key of data.toString('latin1').match(oneKey) ?? []) {
      const scrolled = scrollKeys[key];
      if (key === '\u0003') interrupt();
      else if (takeKey?.(key) === true) continue;
      else if (scrolled !== undefined) scroll?.(scrolled);
      else if (key === 'q' || key === 'Q') end();
    }
  };
  input.setRawMode(true);
  input.on('data', take);
  input.resume();
  return () => {
    input.off('data', take);
    input.setRawMode(false);
    input.pause();
  };
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: keys begin with one
const oneKey = /\u001b(?:\[[\d;]*[A-Za-z~]|O[A-Z])|[\s\S]/g;

/** As terminals send them, and as vi and pagers have them. */
const scrollKeys: Readonly<Record<string, ScrollKey>> = {
  ...byWord<ScrollKey>(
    ['\u001b[A \u001bOA k', 'up'],
    ['\u001b[B \u001bOB j', 'down'],
    ['\u001b[5~ b', 'pageUp'],
    ['\u001b[6~', 'pageDown'],
    ['\u001b[H \u001b[1~ \u001bOH g', 'home'],
    ['\u001b[F \u001b[4~ \u001bOF G', 'end'],
  ),
  ' ': 'pageDown',
};

/** What is typed after `/`: Enter keeps it, Esc drops it. */
export class FilterField {
  #text = '';
  #isOpen = false;

  /** Keys are typed into it. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** In lower case; empty without a filter. */
  get text(): string {
    return this.#text.toLowerCase();
  }

  /** For the last line of the screen; empty without a filter. */
  get shown(): string {
    return this.#isOpen ? `/${this.#text}_` : this.#text === '' ? '' : `/${this.#text}  Esc shows all`;
  }

  /** True if the key was for the filter. */
  take(key: string): boolean {
    if (!this.#isOpen && key !== '/' && !(key === escapeKey && this.#text !== '')) return false;
    if (!this.#isOpen && key === '/') this.#isOpen = true;
    else if (key === escapeKey) {
      this.#text = '';
      this.#isOpen = false;
    } else if (isEnter(key)) this.#isOpen = false;
    else if (key === '\u007f' || key === '\b') this.#text = this.#text.slice(0, -1);
    else this.#text += key.replaceAll(/[^\u0020-\u007e]/g, '').slice(0, key.startsWith(escapeKey) ? 0 : undefined);
    return true;
  }
}

const escapeKey = '\u001b';

export function isEnter(key: string): boolean {
  return key === '\r' || key === '\n';
}
