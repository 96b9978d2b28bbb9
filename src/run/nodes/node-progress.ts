import process from 'node:process';
import spinner from 'yocto-spinner';
import type {CollectProgress} from '../../collect/node/collect-nodes.ts';

/** Says on stderr how far a run is. */
export interface ProgressLine {
  say(text: string): void;
  /** Writes a line that stays, in logs too. */
  note(text: string): void;
  /** Takes the line away. */
  close(): void;
}

/** A line that moves, on a terminal only: in logs and pipes there are only lines that stay. */
export function progressLine(wanted: boolean, stream: NodeJS.WriteStream = process.stderr): ProgressLine {
  if (!wanted) return {say: () => {}, note: () => {}, close: () => {}};
  const note = (text: string): void => void stream.write(`${text}\n`);
  if (stream.isTTY !== true) return {say: () => {}, note, close: () => {}};
  // Its own way with signals is to end the process, before anything is cleaned up.
  const line = spinner({stream, handleSignals: false});
  // The cursor, which it hides, comes back however the process ends.
  const restore = () => void line.stop();
  process.on('exit', restore);
  return {
    say: text => {
      line.text = text;
      line.start();
    },
    note: text => {
      line.clear().stop();
      note(text);
    },
    close: () => {
      line.clear().stop();
      process.off('exit', restore);
    },
  };
}

export function progressText({total, done, failed, inProgress}: CollectProgress): string {
  return `nodes: ${done - failed} of ${total} read${failed > 0 ? `, ${failed} failed or incomplete` : ''}, ${inProgress} in progress`;
}
