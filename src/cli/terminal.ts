import process from 'node:process';
import {errorText, plural} from '../model/text.ts';
import type {Report} from '../model/report.ts';
import type {RenderOptions} from '../render/renderer.ts';
import {styleOf, wrapLines} from '../render/terminal-text.ts';
import {verdictLine} from '../render/verdict-line.ts';
import {exitCode, type FailOn, reaches} from '../run/options/wait-limit.ts';

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

/**
 * The report with a last paragraph: the first line again and why the exit code is what it is, if the first line has left the screen; and the
 * reason alone, if `--fail-on` makes it another code than the first line lets expect.
 */
export function withClosingLine(text: string, report: Report, options: RenderOptions): string {
  const {failOn, width, color, provenance} = options;
  const reason = whyExit(report, failOn);
  const isLong = process.stdout.isTTY === true && text.split('\n').length >= process.stdout.rows;
  if (!isLong) return exitCode(report, failOn) === exitCode(report, 'error') ? text : `${text}\n\n${reason}`;
  return `${text}\n\n${wrapLines(`${verdictLine(report, styleOf(color), provenance)}; ${reason}`, width)}`;
}

function whyExit(report: Report, failOn: FailOn): string {
  const code = exitCode(report, failOn);
  const {errors, warnings, infos} = report.summary;
  const counts = {error: errors, warning: warnings, info: infos};
  if (code === 3) return 'exit code 3: not everything was checked, and nothing that was checked fails';
  if (code === 0 && errors > 0) return `exit code 0: ${plural(errors, 'error')} and --fail-on ${failOn}`;
  if (code === 0) return warnings === 0 ? 'exit code 0' : 'exit code 0: warnings fail with --fail-on warning only';
  const failing = (['error', 'warning', 'info'] as const).filter(severity => counts[severity] > 0 && reaches({severity}, failOn));
  return `exit code 1: ${failing.map(severity => plural(counts[severity], severity)).join(', ')} and --fail-on ${failOn}`;
}
