import process from 'node:process';
import spinner from 'yocto-spinner';
import type {CollectProgress} from '../../collect/node/collect-node.ts';

/** Shows the progress of a run on stderr. */
export interface ProgressLine {
  say(text: string): void;
  /** Writes a permanent line, also in logs. */
  note(text: string): void;
  /** Removes the progress line. */
  close(): void;
}

/** A progress line, on a terminal only. Logs and pipes get permanent lines only. */
export function progressLine(isWanted: boolean, stream: NodeJS.WriteStream = process.stderr): ProgressLine {
  if (!isWanted) return {say: () => {}, note: () => {}, close: () => {}};
  const note = (text: string): void => void stream.write(`${text}\n`);
  if (stream.isTTY !== true) return {say: () => {}, note, close: () => {}};
  // The spinner's own signal handler would end the process before cleanup.
  const line = spinner({stream, handleSignals: false});
  // The spinner hides the cursor; it is shown again however the process ends.
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
