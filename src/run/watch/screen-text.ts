import type {Report} from '../../model/report.ts';
import {changeText} from '../../render/table/change-line.ts';
import {escapeText} from '../../render/escape.ts';
import {nodeList} from '../../render/node-list.ts';
import {matrix} from '../../render/table/matrix.ts';
import {styleOf} from '../../render/style.ts';
import {verdictLine} from '../../render/verdict-line.ts';
import type {TimedFindingChange} from './finding-changes.ts';
import {pushTo} from '../../model/lists.ts';

export interface WatchState {
  /** Null until the first check has ended. */
  readonly report: Report | null;
  /** When each node was last read, in milliseconds since 1970. */
  readonly readAt: ReadonlyMap<string, number>;
  /** The newest first. */
  readonly changes: readonly TimedFindingChange[];
  readonly trouble: string;
  readonly doing: string;
  /** The watched Services and nodes, as text. */
  readonly what: string;
}

interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
  readonly color: boolean;
}

/** The lines of a screen, cut to its size: verdict, matrix, new and resolved findings, and when nodes were read. */
export function screenText(state: WatchState, {columns, rows, color}: ScreenSize): readonly string[] {
  const style = styleOf(color);
  const {report, changes, trouble, doing, what} = state;
  const head = [
    style.dim(`${what}${doing === '' ? '' : `  ${escapeText(doing)}…`}`),
    ...(trouble === '' ? [] : [style.red(escapeText(trouble))]),
  ];
  if (report === null) return fitted(head, columns, rows);
  const times = readTimes(state).map(style.dim);
  const table = matrix(report, {style, width: columns, all: false}).split('\n');
  const top = [...head, verdictLine(report, style), '', ...table.filter(line => line !== ''), ''];
  // The newest come first, so the oldest are cut.
  const room = Math.max(rows - times.length - 1, 3);
  const latest = changes.map(({at, kind, finding}) => `${style.dim(clockTime(at))} ${changeText(kind, finding, style)}`);
  const tooHigh = top.length > room - Math.min(latest.length, 3);
  const shown = tooHigh ? top.slice(0, Math.max(room - Math.min(latest.length, 3), 2)) : top;
  const fitting = latest.slice(0, Math.max(room - shown.length, 0));
  return fitted([...shown, ...fitting, ...(fitting.length === 0 ? [] : ['']), ...times], columns, rows);
}

/** The latest time first. A node that could not be read now is listed at its last read. */
function readTimes({report, readAt}: WatchState): readonly string[] {
  const groups = new Map<number, string[]>();
  const never: string[] = [];
  for (const {name, status} of report?.nodes ?? []) {
    const at = readAt.get(name);
    if (at !== undefined) pushTo(groups, at, name);
    else if (status === 'unread') never.push(name);
  }
  const sorted = [...groups].sort(([a], [b]) => b - a).slice(0, maxRepeats);
  return [
    ...sorted.map(([at, names]) => `read at ${clockTime(at)}: ${nodeList(names)}`),
    ...(never.length === 0 ? [] : [`never read: ${nodeList(never)}`]),
  ];
}

const maxRepeats = 3;

/** Local time. */
function clockTime(at: number): string {
  return new Date(at).toTimeString().slice(0, 8);
}

function fitted(lines: readonly string[], columns: number, rows: number): readonly string[] {
  // A cursor behind the last column stays on it, and clearing the rest of the line would erase that character.
  return lines.slice(0, rows).map(line => cut(line, columns - 1));
}

/** Cuts a line to so many visible characters; colors end with the line. */
function cut(line: string, columns: number): string {
  let left = columns;
  let text = '';
  for (const [part = '', color] of line.matchAll(colorOrText)) {
    text += color === undefined ? part.slice(0, left) : part;
    if (color === undefined) left -= Math.min(part.length, left);
  }
  return text;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: color codes begin with one
const colorOrText = /(\u001b\[\d+m)|[^\u001b]+/g;
