import type {Report} from '../../model/report.ts';
import type {TimedChange} from './finding-changes.ts';

/** Where `watch` shows its results. */
export interface WatchView {
  /** Another report, and its changes. `at` is when the check ended, in milliseconds since 1970. */
  show(report: Report, changes: readonly TimedChange[], at: number): void;
  /** A check failed. */
  trouble(message: string): void;
  /** The current activity. */
  say(text: string): void;
  /** Restores the terminal. */
  close(): void;
}
