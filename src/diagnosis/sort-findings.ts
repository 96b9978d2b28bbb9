import {type Finding, severities} from '../model/finding.ts';

/** By severity, code, namespace, name, port and node, so that the same input gives the same bytes. */
export function sortFindings(findings: readonly Finding[]): readonly Finding[] {
  const key = (finding: Finding): readonly (string | number)[] => [
    severities.indexOf(finding.severity),
    finding.code,
    finding.service?.namespace ?? '',
    finding.service?.name ?? '',
    finding.port?.port ?? 0,
    finding.node ?? '',
    finding.family ?? '',
    finding.message,
  ];
  return findings
    .map(finding => ({finding, key: key(finding)}))
    .sort((a, b) => compareKeys(a.key, b.key))
    .map(({finding}) => finding);
}

function compareKeys(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  for (let index = 0; index < a.length; index++) {
    const value = a[index] ?? '';
    const order = compare(value, b[index] ?? value);
    if (order !== 0) return order;
  }
  return 0;
}

function compare<T extends string | number>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function byName(a: {readonly name: string}, b: {readonly name: string}): number {
  return compare(a.name, b.name);
}
