import {type Finding, type Observation, severities} from '../model/finding.ts';
import type {Problem} from '../model/snapshot.ts';
import {compareText} from '../model/text.ts';

type Code = Pick<Finding, 'code' | 'name' | 'severity' | 'remedy'>;

/** Turns an observation into a finding. Code, severity and remedy are those of the check, unless the observation has its own. */
export function toFinding({code, name, severity, remedy}: Code, observation: Observation): Finding {
  return {...observation, code, name, severity: observation.severity ?? severity, remedy: observation.remedy ?? remedy};
}

/** An object that could not be read, or an unusable file of a node, is a finding too. */
export function problemFinding({message, node, remedy, isMinor}: Problem, gist = 'not everything was read'): Finding {
  return toFinding(notRead, {message, gist, node, remedy, ...(isMinor ? {severity: 'info'} : {})});
}

const notRead = {
  code: 'ST901',
  name: 'node-not-read',
  severity: 'warning',
  remedy: 'Write the file again. The readable part of it was checked.',
} as const;

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
    const order = compareText(value, b[index] ?? value);
    if (order !== 0) return order;
  }
  return 0;
}

export function byName(a: {readonly name: string}, b: {readonly name: string}): number {
  return compareText(a.name, b.name);
}
