import {parseTimeout} from '../../collect/kube/kubeconfig.ts';
import {type Finding, severities} from '../../model/finding.ts';
import type {Report} from '../../model/report.ts';
import {wrongUse} from '../wrong-use.ts';

/** The limit that `--wait` sets. */
export interface WaitLimit {
  /** Milliseconds from the start of the run. */
  readonly milliseconds: number;
  /** The lowest severity that fails the run. */
  readonly failOn: FailOn;
}

interface WaitFlags {
  readonly wait?: string | undefined;
  readonly 'fail-on': string;
  readonly from?: string | undefined;
}

/** Undefined without the flag. Throws a CLIError (exit 2) for an invalid duration, and for a bundle, which never changes. */
export function waitLimit({wait, from, 'fail-on': failOn}: WaitFlags): WaitLimit | undefined {
  if (wait === undefined) return undefined;
  if (from !== undefined) throw wrongUse('--wait re-checks a cluster, but the bundle of --from does not change: leave out one of the two');
  const milliseconds = parseTimeout(wait);
  if (milliseconds === null) throw wrongUse(`--wait: "${wait}" is not a duration; write 60s or 2m`);
  return {milliseconds, failOn: failOn as FailOn};
}

export type FailOn = 'error' | 'warning' | 'info' | 'never';

/** 1 if a new finding reaches the threshold, 3 if something was not checked, otherwise 0. */
export function exitCode(report: Report, failOn: FailOn): number {
  if (report.findings.some(finding => reaches(finding, failOn) && !finding.known)) return 1;
  // Only rules were requested, and they were read.
  if (report.basis === 'rules') return 0;
  const {nodesUnread, nodesChecked, services, verdict} = report.summary;
  return nodesUnread > 0 || verdict === 'incomplete' || (nodesChecked === 0 && services > 0) ? 3 : 0;
}

export function reaches({severity}: Pick<Finding, 'severity'>, failOn: FailOn): boolean {
  return failOn !== 'never' && severities.indexOf(severity) <= severities.indexOf(failOn);
}
