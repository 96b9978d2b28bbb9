import type {FindingChange} from '../model/findings/bundle-diff.ts';
import type {Finding} from '../model/finding.ts';
import {pairFindings} from '../model/findings/pair-findings.ts';
import type {Report} from '../model/report.ts';

type ReportFindings = Pick<Report, 'nodes' | 'findings'>;

/**
 * Findings that came and those that went; one that is of another severity now did both. The words and line numbers may be others in
 * what stayed. What was found on a node that the later side did not read has not gone: nobody has looked.
 */
export function diffFindings(before: ReportFindings, after: ReportFindings): readonly FindingChange[] {
  const {came, went} = pairFindings(before.findings, after.findings, (old, young) => old.severity === young.severity);
  const unread = new Set(unreadSince(before, after));
  return [
    ...came.map(finding => ({kind: 'came', finding}) as const),
    ...went.filter(({node}) => node === undefined || !unread.has(node)).map(finding => ({kind: 'went', finding}) as const),
  ];
}

/** Nodes of which the earlier side found something that the later side cannot have looked for. */
export function unreadSince(before: ReportFindings, after: ReportFindings): readonly string[] {
  const read = new Set(after.nodes.flatMap(({name, status}) => (status === 'checked' ? [name] : [])));
  const found = new Set(before.findings.flatMap(({node, code}: Finding) => (node === undefined || code.startsWith('ST9') ? [] : [node])));
  return [...found].filter(name => !read.has(name)).sort();
}
