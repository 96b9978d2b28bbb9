import type {FindingChange} from '../model/findings/bundle-diff.ts';
import {type Finding, pairFindings} from '../model/finding.ts';
import type {Report} from '../model/report.ts';

type ReportFindings = Pick<Report, 'nodes' | 'findings'>;

/**
 * New and resolved findings; a finding whose severity changed is both. Message and line numbers may change. A finding on a node that the
 * later side did not read is not resolved.
 */
export function diffFindings(before: ReportFindings, after: ReportFindings): readonly FindingChange[] {
  const {came, went} = pairFindings(before.findings, after.findings, (old, young) => old.severity === young.severity);
  const unread = new Set(unreadSince(before, after));
  return [
    ...came.map(finding => ({kind: 'came', finding}) as const),
    ...went.filter(({node}) => node === undefined || !unread.has(node)).map(finding => ({kind: 'went', finding}) as const),
  ];
}

/** Nodes with findings on the earlier side that the later side cannot have checked. */
export function unreadSince(before: ReportFindings, after: ReportFindings): readonly string[] {
  const read = new Set(after.nodes.flatMap(({name, status}) => (status === 'checked' ? [name] : [])));
  const found = new Set(before.findings.flatMap(({node, code}: Finding) => (node === undefined || code.startsWith('ST9') ? [] : [node])));
  return [...found].filter(name => !read.has(name)).sort();
}
