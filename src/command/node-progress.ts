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
export function progressLine(wanted: boolean): ProgressLine {
  if (!wanted || process.stderr.isTTY !== true) return {say: () => {}, close: () => {}};
  const line = spinner({stream: process.stderr});
  return {
    say: text => {
      line.text = text;
      line.start();
    },
    close: () => void line.clear().stop(),
  };
}

export function progressText({total, done, failed, inHand}: CollectProgress): string {
  return `nodes: ${done} of ${total} read${failed > 0 ? `, ${failed} not or not wholly` : ''}, ${inHand} in hand`;
}
