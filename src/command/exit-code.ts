import {type Finding, severities} from '../model/finding.ts';
import type {Report} from '../model/report.ts';

export type FailOn = 'error' | 'warning' | 'info' | 'never';

/** 1 when a finding that is not known reaches the threshold, 3 when something could not be looked at, else 0. */
export function exitCode(report: Report, failOn: FailOn, known: ReadonlySet<string> = new Set()): number {
  if (report.findings.some(finding => reaches(finding, failOn) && !known.has(identityOf(finding)))) return 1;
  return report.summary.nodesUnread > 0 || report.summary.verdict === 'incomplete' ? 3 : 0;
}

function reaches({severity}: Finding, failOn: FailOn): boolean {
  return failOn !== 'never' && severities.indexOf(severity) <= severities.indexOf(failOn);
}

/** What makes a finding the same in two runs: all but the words and the line numbers. */
export function identityOf({
  code,
  node,
  family,
  service,
  port,
  entry,
  endpoint,
}: Omit<Finding, 'severity' | 'name' | 'message' | 'remedy'>): string {
  return JSON.stringify([
    code,
    node ?? null,
    family ?? null,
    service?.namespace ?? null,
    service?.name ?? null,
    port?.name ?? null,
    port?.protocol ?? null,
    entry?.kind ?? null,
    entry?.address ?? null,
    endpoint ?? null,
  ]);
}
