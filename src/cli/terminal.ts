import process from 'node:process';
import {errorText} from '../model/text.ts';

/** NO_COLOR and FORCE_COLOR, as in https://no-color.org and Node.js. They apply to terminals: a file never gets color. */
export function wantsColor(toTerminal: boolean): boolean {
  const {NO_COLOR, FORCE_COLOR} = process.env;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return toTerminal && (NO_COLOR === undefined || NO_COLOR === '') && process.env['TERM'] !== 'dumb';
}

/**
 * Whether the terminal is one that shows links (OSC 8). Others would print their targets or nothing. FORCE_HYPERLINK decides, as in other
 * programs; screen and old tmux swallow links, so TERM comes before what the terminal around them says.
 */
export function showsLinks(): boolean {
  const {FORCE_HYPERLINK, TERM = '', TERM_PROGRAM = '', VTE_VERSION, WT_SESSION, DOMTERM} = process.env;
  if (FORCE_HYPERLINK !== undefined) return !/^(?:0|false|)$/.test(FORCE_HYPERLINK);
  if (/^(?:dumb|screen|tmux)/.test(TERM)) return false;
  return (
    /^(?:iTerm\.app|WezTerm|vscode|ghostty|Hyper|Tabby|rio)$/i.test(TERM_PROGRAM) ||
    /^(?:xterm-kitty|xterm-ghostty|alacritty|foot)/.test(TERM) ||
    Number(VTE_VERSION ?? 0) >= 5000 ||
    [WT_SESSION, DOMTERM].some(value => value !== undefined)
  );
}

/**
 * Ends the process when stdout cannot be written, like a file that cannot be written (2). A command that listens for signals ends as if by
 * SIGTERM, so that everything created on the cluster is removed. A reader that closes the pipe (`| head`) is no error.
 */
export function endOnWriteError(): void {
  let isEnding = false;
  process.stdout.on('error', error => {
    if (isEnding || isClosedPipe(error)) return;
    isEnding = true;
    process.stderr.write(`Error: cannot write to stdout: ${errorText(error)}\n`);
    if (process.listenerCount('SIGTERM') === 0) process.exit(2);
    process.exitCode = 2;
    process.kill(process.pid, 'SIGTERM');
  });
}

/** Whether the reader has closed the pipe. */
export function isClosedPipe(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EPIPE';
}
