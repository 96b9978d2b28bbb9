import process from 'node:process';
import {severities} from '../../model/finding.ts';
import {pushTo} from '../../model/lists.ts';
import type {Report} from '../../model/report.ts';
import {errorText, namespacedName} from '../../model/text.ts';
import {severityOf, nodeList} from '../../render/finding-blocks.ts';
import {matrix} from '../../render/table/matrix.ts';
import {escapeText, type Style, styleOf, wrap} from '../../render/renderer.ts';
import {verdictLine} from '../../render/verdict-line.ts';
import {FilterField, isEnter, liveScreen, screenSize, type ScrollKey} from '../live-screen.ts';
import {type TimedChange, changeLine, type WatchView} from './watch-lines.ts';

interface ScreenOptions {
  readonly color: boolean;
  /** What is watched, in words. */
  readonly what: string;
  /** Keys are listened to, and go to `scroll`. */
  readonly hasKeys?: boolean;
  readonly stream?: NodeJS.WriteStream;
  /** Reads a Service (`namespace/name`) and returns the text of its trace, in so many columns. */
  readonly trace?: (service: string, columns: number) => Promise<string>;
}

/** A view whose list can be scrolled. */
export interface ScrolledView extends WatchView {
  scroll(key: ScrollKey): void;
  /** `/` filters, Enter traces the first Service of the list. True if the key was for one of them. */
  take(key: string): boolean;
}

/** A live screen of the watched Services. */
export function watchScreen({color, what, hasKeys = false, stream = process.stdout, trace}: ScreenOptions): ScrolledView {
  const filter = new FilterField();
  let state: WatchState = {
    report: null,
    readAt: new Map(),
    changes: [],
    trouble: '',
    doing: '',
    what,
    offset: 0,
    hasKeys,
    filter: '',
    filterText: '',
    traced: null,
  };
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
      change({report, readAt, changes: [...worstFirst(changes), ...state.changes].slice(0, maxChanges), trouble: '', doing: ''});
    },
    trouble: trouble => change({trouble, doing: ''}),
    say: doing => change({doing}),
    scroll: key => {
      const {maxOffset, page} = screen();
      const from = Math.min(state.offset, maxOffset);
      const to = {up: from - 1, down: from + 1, pageUp: from - page, pageDown: from + page, home: 0, end: maxOffset};
      change({offset: Math.max(0, Math.min(to[key], maxOffset))});
    },
    take: key => {
      if (state.traced !== null && (isEnter(key) || key === '\u001b' || key === 'q')) {
        change({traced: null, offset: 0});
        return true;
      }
      if (state.traced !== null) return false;
      if (filter.take(key)) {
        change({filter: filter.text, filterText: filter.shown, offset: 0});
        return true;
      }
      const service = firstService(state);
      if (!isEnter(key) || trace === undefined || service === null) return false;
      const set = (text: string): void => {
        if (state.traced?.service === service) change({traced: {service, text}, doing: ''});
      };
      change({traced: {service, text: `tracing ${service}…`}, offset: 0});
      trace(service, screenSize(stream).columns - 1).then(set, (error: unknown) => set(errorText(error)));
      return true;
    },
    close: () => close(state.report === null ? null : verdictLine(state.report, styleOf(color))),
  };
}

/** The Service that Enter traces: that of the worst finding in the filtered list, else its first. */
function firstService({report, filter}: Pick<WatchState, 'report' | 'filter'>): string | null {
  const named = [...(report?.findings ?? []).flatMap(({service}) => service ?? []), ...(report?.services ?? [])].map(namespacedName);
  return named.find(name => name.toLowerCase().includes(filter)) ?? null;
}

/** Errors that are new come first, what is resolved last. */
function worstFirst(changes: readonly TimedChange[]): readonly TimedChange[] {
  const rank = (change: TimedChange): number => {
    if (!('block' in change)) return severities.length;
    return change.kind === 'went' ? severities.length + 1 : severities.indexOf(severityOf(change.block));
  };
  return changes.toSorted((a, b) => b.at - a.at || rank(a) - rank(b));
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
  /** Only lines with this text, in lower case. */
  readonly filter: string;
  /** The filter as it is shown. */
  readonly filterText: string;
  /** The trace that is shown in place of the list. */
  readonly traced: {readonly service: string; readonly text: string} | null;
}

interface Screen {
  /** Truncated to the size. */
  readonly lines: readonly string[];
  /** How far the list can be scrolled, in lines. */
  readonly maxOffset: number;
  /** How many lines of the list are shown. */
  readonly page: number;
}

/**
 * A screen: what is watched and the verdict above; the latest changes, the matrix, older changes and when nodes were read in a list that
 * scrolls; the keys in the last line.
 * @internal
 */
export function screenOf(
  state: WatchState,
  {columns, rows, color}: {readonly columns: number; readonly rows: number; readonly color: boolean},
): Screen {
  const style = styleOf(color);
  const {report, trouble, doing, what} = state;
  const top = [
    style.dim(`${what}${doing === '' ? '' : `  ${escapeText(doing)}…`}`),
    ...(trouble === '' ? [] : wrap(escapeText(trouble), columns - 1, '').map(style.red)),
    ...(report === null ? [] : wrap(verdictLine(report, style), columns - 1, '')),
  ];
  const page = Math.max(rows - top.length - 1, 0);
  const list = state.traced !== null ? state.traced.text.split('\n') : report === null ? [] : listOf(state, report, {columns, page, style});
  const maxOffset = Math.max(list.length - page, 0);
  const offset = Math.min(state.offset, maxOffset);
  const shown = list.slice(offset, offset + page);
  const foot = style.dim(keysText(state, maxOffset > 0 ? {first: offset + 1, last: offset + shown.length, all: list.length} : null));
  const blank = Array.from({length: Math.max(page - shown.length, 0)}, () => '');
  return {lines: fitted([...top.slice(0, rows - 1), ...shown, ...blank, foot], columns, rows), maxOffset, page};
}

function keysText(state: WatchState, range: {readonly first: number; readonly last: number; readonly all: number} | null): string {
  const {hasKeys, filterText, traced} = state;
  const lines = range === null ? '' : `lines ${range.first}-${range.last} of ${range.all}`;
  if (!hasKeys) return ['Ctrl-C quits', lines].filter(text => text !== '').join('  ');
  const scroll = range === null ? '' : '↑ ↓ scroll';
  const service = firstService(state);
  const own = traced !== null ? ['Esc goes back'] : ['q quits', filterText === '' ? '/ filters' : filterText];
  const enter = traced === null && service !== null ? `Enter traces ${escapeText(service)}` : '';
  return [...own, enter, scroll, lines].filter(text => text !== '').join('  ');
}

/** The latest changes come before the matrix, so that a big one does not push them off the screen. */
function listOf(
  state: WatchState,
  report: Report,
  {columns, page, style}: {readonly columns: number; readonly page: number; readonly style: Style},
): readonly string[] {
  const isShown = (line: string): boolean => state.filter === '' || line.toLowerCase().includes(state.filter);
  const changes = state.changes
    .map(change => wrap(changeLine(change, style), columns - 1, `${style.dim(clockTime(change.at))} `))
    .filter(lines => isShown(lines.join(' ')));
  const table = matrixLines(report, {style, width: columns, all: state.filter !== ''}).filter(
    (line, index) => line !== '' && (index === 0 || isShown(line)),
  );
  const times = readTimes(state).map(style.dim);
  const room = page - table.length - times.length - 4;
  const count = howManyFit(changes, Math.max(room, fewChanges));
  const blocks = [changes.slice(0, count).flat(), table, changes.slice(count).flat(), times];
  return blocks.filter(block => block.length > 0).flatMap(block => ['', ...block]);
}

/** Made once for a report and a size of the screen: of thousands of Services it takes longer than the time between two keys. */
function matrixLines(report: Report, options: Parameters<typeof matrix>[1]): readonly string[] {
  const made = matrices.get(report) ?? new Map<string, readonly string[]>();
  matrices.set(report, made);
  const key = JSON.stringify([options.width, options.all, options.style.dim('x')]);
  const lines = made.get(key) ?? matrix(report, options).split('\n');
  made.set(key, lines);
  return lines;
}

const matrices = new WeakMap<Report, Map<string, readonly string[]>>();

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
  return lines.slice(0, rows).map(line => truncate(line, columns - 1));
}

/** To so many characters on the screen; colors end where the line does. */
function truncate(line: string, columns: number): string {
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
