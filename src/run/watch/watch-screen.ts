import process from 'node:process';
import {pushTo} from '../../model/lists.ts';
import type {Report} from '../../model/report.ts';
import {nodeList} from '../../render/names-of-nodes.ts';
import {matrix} from '../../render/table/matrix.ts';
import {escapeText, type Style, styleOf} from '../../render/terminal-text.ts';
import {verdictLine} from '../../render/verdict-line.ts';
import {wrap} from '../../render/wrap.ts';
import {liveScreen, screenSize, type ScrollKey} from '../live-screen.ts';
import type {TimedChange} from './finding-changes.ts';
import {changeLine, type WatchView} from './watch-lines.ts';

interface ScreenOptions {
  readonly color: boolean;
  /** What is watched, in words. */
  readonly what: string;
  /** Keys are listened to, and go to `scroll`. */
  readonly hasKeys?: boolean;
  readonly stream?: NodeJS.WriteStream;
}

/** A view whose list can be scrolled. */
export interface ScrolledView extends WatchView {
  scroll(key: ScrollKey): void;
}

/** A live screen of the watched Services. */
export function watchScreen({color, what, hasKeys = false, stream = process.stdout}: ScreenOptions): ScrolledView {
  let state: WatchState = {report: null, readAt: new Map(), changes: [], trouble: '', doing: '', what, offset: 0, hasKeys};
  const screen = (): Screen => screenOf(state, {...screenSize(stream), color});
  const {draw, close} = liveScreen(stream, () => screen().lines);
  const change = (next: Partial<WatchState>): void => {
    state = {...state, ...next};
    draw();
  };
  return {
    show: (report, changes, at) => {
      const read = report.nodes.filter(({status}) => status === 'checked').map(({name}) => [name, at] as const);
      const readAt = new Map([...state.readAt, ...read]);
      change({report, readAt, changes: [...changes.toReversed(), ...state.changes].slice(0, maxChanges), trouble: '', doing: ''});
    },
    trouble: trouble => change({trouble, doing: ''}),
    say: doing => change({doing}),
    scroll: key => {
      const {maxOffset, page} = screen();
      const from = Math.min(state.offset, maxOffset);
      const to = {up: from - 1, down: from + 1, pageUp: from - page, pageDown: from + page, home: 0, end: maxOffset};
      change({offset: Math.max(0, Math.min(to[key], maxOffset))});
    },
    close,
  };
}

const maxChanges = 200;

interface WatchState {
  /** Null until the first check has ended. */
  readonly report: Report | null;
  /** When each node was last read, in milliseconds since 1970. */
  readonly readAt: ReadonlyMap<string, number>;
  /** The newest first. */
  readonly changes: readonly TimedChange[];
  readonly trouble: string;
  readonly doing: string;
  /** What is watched, in words. */
  readonly what: string;
  /** How many lines of the list are above the screen. */
  readonly offset: number;
  /** Keys are listened to. */
  readonly hasKeys: boolean;
}

interface WatchScreenSize {
  readonly columns: number;
  readonly rows: number;
  readonly color: boolean;
}

interface Screen {
  /** Cut to the size. */
  readonly lines: readonly string[];
  /** How far the list can be scrolled, in lines. */
  readonly maxOffset: number;
  /** How many lines of the list are shown. */
  readonly page: number;
}

/**
 * A screen: what is watched and the verdict above; the latest changes, the matrix, older changes and when nodes were read in a list that
 * scrolls; the keys in the last line.
 */
export function screenOf(state: WatchState, {columns, rows, color}: WatchScreenSize): Screen {
  const style = styleOf(color);
  const {report, trouble, doing, what} = state;
  const top = [
    style.dim(`${what}${doing === '' ? '' : `  ${escapeText(doing)}…`}`),
    ...(trouble === '' ? [] : wrap(escapeText(trouble), columns - 1, '').map(style.red)),
    ...(report === null ? [] : wrap(verdictLine(report, style), columns - 1, '')),
  ];
  const page = Math.max(rows - top.length - 1, 0);
  const list = report === null ? [] : listOf(state, report, {columns, page, style});
  const maxOffset = Math.max(list.length - page, 0);
  const offset = Math.min(state.offset, maxOffset);
  const shown = list.slice(offset, offset + page);
  const foot = style.dim(
    keysText(state.hasKeys, maxOffset > 0 ? {first: offset + 1, last: offset + shown.length, all: list.length} : null),
  );
  const blank = Array.from({length: Math.max(page - shown.length, 0)}, () => '');
  return {lines: fitted([...top.slice(0, rows - 1), ...shown, ...blank, foot], columns, rows), maxOffset, page};
}

function keysText(hasKeys: boolean, range: {readonly first: number; readonly last: number; readonly all: number} | null): string {
  const end = hasKeys ? 'q quits' : 'Ctrl-C quits';
  if (range === null) return end;
  const lines = `lines ${range.first}-${range.last} of ${range.all}`;
  return hasKeys ? `${end}  ↑ ↓ PgUp PgDn scroll  ${lines}` : `${end}  ${lines}`;
}

/** The latest changes come before the matrix, so that a big one does not push them off the screen. */
function listOf(
  state: WatchState,
  report: Report,
  {columns, page, style}: {readonly columns: number; readonly page: number; readonly style: Style},
): readonly string[] {
  const changes = state.changes.map(change => wrap(changeLine(change, style), columns - 1, `${style.dim(clockTime(change.at))} `));
  const table = matrix(report, {style, width: columns, all: false, headers: true})
    .split('\n')
    .filter(line => line !== '');
  const times = readTimes(state).map(style.dim);
  const room = page - table.length - times.length - 4;
  const count = howManyFit(changes, Math.max(room, fewChanges));
  const blocks = [changes.slice(0, count).flat(), table, changes.slice(count).flat(), times];
  return blocks.filter(block => block.length > 0).flatMap(block => ['', ...block]);
}

/** At least one. */
function howManyFit(changes: readonly (readonly string[])[], room: number): number {
  let left = room;
  const tooMany = changes.findIndex((lines, index) => {
    left -= lines.length;
    return index > 0 && left < 0;
  });
  return tooMany < 0 ? changes.length : tooMany;
}

/** So many lines of changes are shown above the matrix, however big it is. */
const fewChanges = 3;

/** The latest time first; a node that could not be read now stands under the time when it was. */
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

/** By the clock on the wall. */
function clockTime(at: number): string {
  return new Date(at).toTimeString().slice(0, 8);
}

function fitted(lines: readonly string[], columns: number, rows: number): readonly string[] {
  // A cursor that stands behind the last column is held back on it, and what clears the rest of the line would take that character.
  return lines.slice(0, rows).map(line => cut(line, columns - 1));
}

/** To so many characters on the screen; colors end where the line does. */
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
