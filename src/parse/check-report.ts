import type {Finding} from '../model/finding.ts';
import type {NodeReport} from '../model/report.ts';
import {readJson} from './json-text.ts';

export interface SavedReport {
  readonly nodes: readonly NodeReport[];
  readonly findings: readonly Finding[];
}

/** The nodes and findings of an earlier `check -o json`; null when the text is no such report. */
export function parseCheckReport(text: string): SavedReport | null {
  const report = readJson(text);
  if (typeof report !== 'object' || report === null) return null;
  const {findings, nodes} = report as {findings?: unknown; nodes?: unknown};
  if (!isListOf<Finding>(findings, 'code') || !isListOf<NodeReport>(nodes, 'name')) return null;
  return {nodes, findings: findings.map(withAddress)};
}

function isListOf<T>(value: unknown, key: string): value is readonly T[] {
  return Array.isArray(value) && value.every(item => typeof item === 'object' && item !== null && typeof item[key] === 'string');
}

/** The JSON leaves out an address that is null. */
function withAddress(finding: Finding): Finding {
  return finding.entry === undefined ? finding : {...finding, entry: {...finding.entry, address: finding.entry.address ?? null}};
}
