import type {Entry} from './entry.ts';
import type {Family} from './family.ts';
import type {RuleText} from './ruleset.ts';

/** What happens to packets: lost or misled (error), served but not as configured (warning), by design or harmless (info). */
export type Severity = 'error' | 'warning' | 'info';

export const severities: readonly Severity[] = ['error', 'warning', 'info'];

export interface ServiceName {
  readonly namespace: string;
  readonly name: string;
}

/** Something that a check saw. The code and what follows from it are added when it becomes a Finding. */
export interface Observation {
  /** When it is not the usual severity of the check. */
  readonly severity?: Severity;
  readonly node?: string;
  readonly family?: Family;
  readonly service?: ServiceName;
  readonly port?: {readonly name: string; readonly protocol: string; readonly port: number};
  readonly entry?: Entry;
  /** `ip:port`. */
  readonly endpoint?: string;
  readonly message: string;
  /** Rules that should be there. */
  readonly expected?: readonly RuleText[];
  /** Rules that are there. */
  readonly actual?: readonly RuleText[];
  /** What to do; the check's own advice when it is left out. */
  readonly remedy?: string;
}

export interface Finding extends Observation {
  /** It stands in the baseline: it is shown, and counts for nothing. */
  readonly known?: true;
  readonly code: string;
  readonly name: string;
  readonly severity: Severity;
  readonly remedy: string;
}
