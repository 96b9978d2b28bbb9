import type {FindingChange} from '../model/bundle-diff.ts';
import {identityOf} from '../model/finding-identity.ts';
import type {Finding} from '../model/finding.ts';

/** Findings that came and those that went. The words and line numbers may be others in what stayed. */
export function diffFindings(before: readonly Finding[], after: readonly Finding[]): readonly FindingChange[] {
  const [old, young] = [new Set(before.map(identityOf)), new Set(after.map(identityOf))];
  return [
    ...after.filter(finding => !old.has(identityOf(finding))).map(finding => ({kind: 'came', finding}) as const),
    ...before.filter(finding => !young.has(identityOf(finding))).map(finding => ({kind: 'went', finding}) as const),
  ];
}
