import {diagnose} from '../../src/diagnose.ts';
import {reportRulesAlone} from '../../src/diagnosis/report-rules-alone.ts';
import type {Report} from '../../src/model/report.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {snapshotOfText as read} from '../../src/parse/pasted/split-text.ts';
import {selectInRules} from '../../src/run/scope/select-in-rules.ts';

/** A pasted text as a file in place of a bundle is read. */
export function snapshotOfText(text: string): Snapshot {
  const snapshot = read('rules.txt', Buffer.from(text));
  if (snapshot === null) throw new Error('the text has no rules');
  return snapshot;
}

/** What `trace NAME… --from rules.txt` reports; without names all Services. */
export function traceText(snapshot: Snapshot, ...names: readonly string[]): Report {
  return reportRulesAlone(snapshot, {toolVersion: '0.0.0'}, traces =>
    selectInRules(traces, {names, namespace: undefined, allNamespaces: false}),
  );
}

/** The reason of check, without the Services of the rules. */
export function said(text: string): string {
  const [, shows = ''] =
    /What was read shows: (.*?)(?: \(\d+ rules? in .*)?$/.exec(
      diagnose(snapshotOfText(text), {toolVersion: '0.0.0'}).nodes[0]?.reason ?? '',
    ) ?? [];
  return shows;
}
