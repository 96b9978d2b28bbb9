import process from 'node:process';
import type {Report} from '../model/report.ts';
import {plural} from '../model/text.ts';
import {type RenderOptions, styleOf, wrapLines} from '../render/renderer.ts';
import {verdictLine} from '../render/verdict-line.ts';
import {exitCode, type FailOn, reaches} from '../run/options/wait-limit.ts';

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
