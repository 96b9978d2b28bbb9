import {enter, home, leave, toLineEnd, toScreenEnd} from '../screen-control.ts';
import process from 'node:process';
import type {ScrollKey} from '../screen-keys.ts';
import {type Screen, screenOf, type WatchState} from './screen-text.ts';
import type {WatchView} from './watch-view.ts';

export interface ScreenOptions {
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

/**
 * A terminal that is drawn again in place, on its alternate screen, so that what was on it comes back in the end however the process
 * ends. It is drawn again when its size changes.
 */
export function watchScreen({color, what, hasKeys = false, stream = process.stdout}: ScreenOptions): ScrolledView {
  let state: WatchState = {report: null, readAt: new Map(), changes: [], trouble: '', doing: '', what, offset: 0, hasKeys};
  let open = true;
  const screen = (): Screen => screenOf(state, {columns: stream.columns || 80, rows: stream.rows || 24, color});
  const draw = (): void => {
    const {lines} = screen();
    stream.write(`${home}${lines.map(line => line + toLineEnd).join('\n')}${toScreenEnd}`);
  };
  const change = (next: Partial<WatchState>): void => {
    state = {...state, ...next};
    if (open) draw();
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
