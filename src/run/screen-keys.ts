import process from 'node:process';

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
