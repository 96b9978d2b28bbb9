import process from 'node:process';
import spinner from 'yocto-spinner';
import type {CollectProgress} from '../collect/collect-nodes.ts';

/** Says on stderr how far a run is. */
export interface ProgressLine {
  say(text: string): void;
  /** Takes the line away. */
  close(): void;
}

/** A line that moves, on a terminal only: logs and pipes stay as they are. */
export function progressLine(wanted: boolean, stream: NodeJS.WriteStream = process.stderr): ProgressLine {
  if (!wanted || stream.isTTY !== true) return {say: () => {}, close: () => {}};
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
    close: () => {
      line.clear().stop();
      process.off('exit', restore);
    },
  };
}

export function progressText({total, done, failed, inHand}: CollectProgress): string {
  return `nodes: ${done} of ${total} read${failed > 0 ? `, ${failed} not or not wholly` : ''}, ${inHand} in hand`;
}
