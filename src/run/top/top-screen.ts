import process from 'node:process';
import type {TrafficReport} from '../../model/traffic/traffic-report.ts';
import {styleOf} from '../../render/terminal-text.ts';
import {topTable} from '../../render/top/top-table.ts';
import {liveScreen, type ScreenSize} from '../live-screen.ts';
import {visibleLength} from '../../render/wrap.ts';

interface TopScreenOptions {
  readonly color: boolean;
  readonly wide: boolean;
  /** The counted Services and nodes as text, escaped. */
  readonly what: string;
  readonly stream?: NodeJS.WriteStream;
}

interface TopScreen {
  show(report: TrafficReport): void;
  say(text: string): void;
  close(): void;
}

/** A live screen of the traffic. */
export function topScreen({color, wide, what, stream = process.stdout}: TopScreenOptions): TopScreen {
  let report: TrafficReport | null = null;
  let doing = '';
  const {draw, close} = liveScreen(stream, size => screenLines({report, doing, what}, {...size, color, wide}));
  return {
    show: next => {
      report = next;
      doing = '';
      draw();
    },
    say: text => {
      doing = text;
      if (report === null) draw();
    },
    close,
  };
}

interface ScreenState {
  readonly report: TrafficReport | null;
  readonly doing: string;
  readonly what: string;
}

interface TopScreenSize extends ScreenSize {
  readonly color: boolean;
  readonly wide: boolean;
}

/** The lines of a screen, cut to its size; the last line tells how many are left out. */
function screenLines({report, doing, what}: ScreenState, {columns, rows, color, wide}: TopScreenSize): readonly string[] {
  const style = styleOf(color);
  const head = style.dim(cut(`${what}  q ends it`, columns - 1));
  if (report === null) return [head, cut(`${doing}…`, columns - 1)];
  const lines = [head, ...topTable(report, {color, width: columns - 1, quiet: false, wide}).split('\n')];
  if (lines.length <= rows) return lines;
  return [...lines.slice(0, rows - 1), style.dim(`… ${lines.length - rows + 1} more lines: a higher terminal, or --once, shows them`)];
}

function cut(text: string, columns: number): string {
  return visibleLength(text) <= columns ? text : `${text.slice(0, columns - 1)}…`;
}
