import type {Report} from '../../model/report.ts';
import type {TimedFindingChange} from './finding-changes.ts';

/** Where a watch shows what it sees. */
export interface WatchView {
  /** Another report, and what it changed. `at` is when the look ended, in milliseconds since 1970. */
  show(report: Report, changes: readonly TimedFindingChange[], at: number): void;
  /** A look came to nothing. */
  trouble(message: string): void;
  /** What is being done now. */
  say(text: string): void;
  /** Leaves things as they were. */
  close(): void;
}
