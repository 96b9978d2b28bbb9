import process from 'node:process';

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

/**
 * A screen that is redrawn in place on the terminal's alternate screen, so that the previous content returns however the process ends. A
 * change of its size redraws it.
 */
interface LiveScreen {
  /** Does nothing once the screen is closed. */
  draw(): void;
  close(): void;
}

/** `linesOf` returns the lines to draw, no more and no longer than the size. */
export function liveScreen(stream: NodeJS.WriteStream, linesOf: (size: ScreenSize) => readonly string[]): LiveScreen {
  let open = true;
  const draw = (): void => {
    if (!open) return;
    const lines = linesOf(screenSize(stream));
    stream.write(`${home}${lines.map(line => line + toLineEnd).join('\n')}${toScreenEnd}`);
  };
  const close = (): void => {
    if (!open) return;
    open = false;
    stream.off('resize', draw);
    process.off('exit', close);
    stream.write(leave);
  };
  stream.write(enter);
  stream.on('resize', draw);
  process.on('exit', close);
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
  readonly end: () => void;
  readonly interrupt: () => void;
  readonly scroll?: (key: ScrollKey) => void;
}

/**
 * Calls `end` for `q`, and `interrupt` for Ctrl-C, which a terminal in raw mode hands on as a character. Returns what ends it, or null
 * where there is no keyboard to listen to.
 */
export function listenForKeys({end, interrupt, scroll}: KeyActions, input = process.stdin): (() => void) | null {
  if (input.isTTY !== true) return null;
  const take = (data: Buffer): void => {
    const text = data.toString('latin1');
    const keys = scrollKeys[text];
    if (text.includes('\u0003')) interrupt();
    else if (keys !== undefined) scroll?.(keys);
    else if (/[qQ]/.test(text)) end();
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

/** As terminals send them, and as vi and pagers have them. */
const scrollKeys: Readonly<Record<string, ScrollKey>> = {
  ...{'\u001b[A': 'up', '\u001bOA': 'up', k: 'up', '\u001b[B': 'down', '\u001bOB': 'down', j: 'down'},
  ...{'\u001b[5~': 'pageUp', b: 'pageUp', '\u001b[6~': 'pageDown', ' ': 'pageDown'},
  ...{'\u001b[H': 'home', '\u001b[1~': 'home', '\u001bOH': 'home', g: 'home'},
  ...{'\u001b[F': 'end', '\u001b[4~': 'end', '\u001bOF': 'end', G: 'end'},
};
