import type {Report} from '../../model/report.ts';
import {changeLine} from './change-line.ts';
import {styleOf} from '../../render/style.ts';
import {verdictLine} from '../../render/verdict-line.ts';
import type {TimedChange} from './finding-changes.ts';
import type {WatchView} from './watch-view.ts';

interface LinesOutput {
  readonly color: boolean;
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
}

/** Without a terminal: one line for each new or resolved finding, and one whenever the verdict changes. */
export function watchLines({color, out, error}: LinesOutput): WatchView {
  const style = styleOf(color);
  let verdict = '';
  let trouble = '';
  return {
    show: (report: Report, changes: readonly TimedChange[], at: number) => {
      trouble = '';
      for (const change of changes) out(`${timeOf(change.at)} ${changeLine(change, style)}\n`);
      const line = verdictLine(report, style);
      if (line !== verdict) out(`${timeOf(at)} ${line}\n`);
      verdict = line;
    },
    trouble: message => {
      if (message !== trouble) error(`${message}\n`);
      trouble = message;
    },
    say: () => {},
    close: () => {},
  };
}

function timeOf(at: number): string {
  return new Date(at).toISOString().replace(/\.\d+Z$/, 'Z');
}
