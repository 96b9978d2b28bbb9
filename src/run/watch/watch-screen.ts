import {enter, home, leave, toLineEnd, toScreenEnd} from '../screen-control.ts';
import process from 'node:process';
import {screenText, type WatchState} from './screen-text.ts';
import type {WatchView} from './watch-view.ts';

interface ScreenOptions {
  readonly color: boolean;
  /** The watched Services and nodes, as text. */
  readonly what: string;
  readonly stream?: NodeJS.WriteStream;
}

/**
 * A screen that is redrawn in place on the terminal's alternate screen, so that the previous content returns however the process ends. A
 * change of its size redraws it.
 */
export function watchScreen({color, what, stream = process.stdout}: ScreenOptions): WatchView {
  let state: WatchState = {report: null, readAt: new Map(), changes: [], trouble: '', doing: '', what};
  let open = true;
  const draw = (): void => {
    const lines = screenText(state, {columns: stream.columns || 80, rows: stream.rows || 24, color});
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
    close,
  };
}

const maxChanges = 200;
