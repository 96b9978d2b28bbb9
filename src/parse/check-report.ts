import {type Finding, severities} from '../model/finding.ts';
import type {NodeReport} from '../model/report.ts';
import {pathTree} from '../model/path-tree.ts';
import {hasFields, isObject, type NeededFields, readJson} from './attempt.ts';

/** The schema of reports that can be read. */
const readableVersion = 1;

/** The nodes and findings of an earlier `check -o json` or `trace -o json`; the reason as text if it is not such a report. */
export function parseCheckReport(
  text: string,
): {readonly nodes: readonly NodeReport[]; readonly findings: readonly Finding[]} | {readonly whyNot: string} {
  const report = readJson(text.replace(/^\ufeff/, ''));
  if (report === undefined) return {whyNot: text.trim() === '' ? 'it is empty' : 'it is not JSON, or it is truncated'};
  if (!isObject(report) || report['schemaVersion'] === undefined) return {whyNot: 'it is no report of check -o json'};
  const {schemaVersion, findings, nodes, requirements} = report;
  if (schemaVersion !== readableVersion)
    return {
      whyNot: `it is a report of schemaVersion ${JSON.stringify(schemaVersion)}, and this version of svc-trace reads ${readableVersion}`,
    };
  if (Array.isArray(requirements)) return {whyNot: 'it is the plan of a preview, which check --plan compares with nodes'};
  if (!Array.isArray(findings) || !Array.isArray(nodes)) return {whyNot: 'it has no lists of findings and nodes'};
  const invalid = findings.findIndex(finding => !isFinding(finding));
  if (invalid >= 0) return {whyNot: `finding ${invalid + 1} in it cannot be read`};
  const oddNode = nodes.findIndex(node => !hasFields(node, fieldsOfNode));
  if (oddNode >= 0) return {whyNot: `node ${oddNode + 1} in it cannot be read`};
  return {nodes, findings: findings.map(withAddress)};
}

/** Whether a file is such a report, or part of one, by its beginning. */
export function startsAsReport(start: string): boolean {
  return /^\ufeff?\s*\{\s*"schemaVersion"\s*:/.test(start);
}

const fieldsOfFinding = pathTree<NeededFields>(['string', 'code name severity message remedy']);

/** What a finding may have, with what is needed of each. */
const furtherFields = pathTree<NeededFields>(['string', 'node family endpoint service.{namespace name} port.{name protocol} entry.kind']);

function isFinding(value: unknown): boolean {
  if (!isObject(value) || !hasFields(value, fieldsOfFinding)) return false;
  const {severity, entry} = value as unknown as Finding;
  const address = entry?.address ?? '';
  return (
    severities.includes(severity) &&
    address === String(address) &&
    Object.entries(furtherFields).every(([name, fields]) => value[name] === undefined || hasFields(value[name], fields))
  );
}

const fieldsOfNode = pathTree<NeededFields>(['string', 'name status settings.*.value']);

export function isText(value: unknown): value is string {
  return typeof value === 'string';
}

/** The JSON leaves out an address that is null. */
function withAddress(finding: Finding): Finding {
  return finding.entry === undefined ? finding : {...finding, entry: {...finding.entry, address: finding.entry.address ?? null}};
}
