import {type Finding, severities} from '../model/finding.ts';
import type {Report} from '../model/report.ts';

export type FailOn = 'error' | 'warning' | 'info' | 'never';

/** 1 if a new finding reaches the threshold, 3 if something could not be checked, otherwise 0. */
export function exitCode(report: Report, failOn: FailOn): number {
  if (report.findings.some(finding => reaches(finding, failOn) && !finding.known)) return 1;
  // Only rules were requested, and they were read.
  if (report.basis === 'rules') return 0;
  return report.summary.nodesUnread > 0 || report.summary.verdict === 'incomplete' ? 3 : 0;
}

export function reaches({severity}: Finding, failOn: FailOn): boolean {
  return failOn !== 'never' && severities.indexOf(severity) <= severities.indexOf(failOn);
}
