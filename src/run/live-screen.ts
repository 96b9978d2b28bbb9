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
