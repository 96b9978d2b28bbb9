import process from 'node:process';
import {liveScreen, screenSize} from '../live-screen.ts';
import type {ScrollKey} from '../screen-keys.ts';
import {type Screen, screenOf, type WatchState} from './screen-text.ts';
import type {WatchView} from './watch-view.ts';

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
