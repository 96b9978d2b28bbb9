import {diagnose} from '../src/diagnose.ts';
import type {Report} from '../src/model/report.ts';
import type {Snapshot} from '../src/model/snapshot.ts';

const reports = new WeakMap<Snapshot, Report>();

/** What `check -A` reports of a Snapshot. Many tests ask about the same captures, and each capture is checked once in a process. */
export function diagnosed(snapshot: Snapshot): Report {
  const report = reports.get(snapshot) ?? diagnose(snapshot, {toolVersion: '0.0.0'});
  reports.set(snapshot, report);
  return report;
}
