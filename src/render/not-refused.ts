import type {Finding} from '../model/finding.ts';
import {namespacedName, someOf} from '../model/text.ts';

/** ST101 says that connections are refused. Where an error of a node says that they hang, or still reach an address, it must not. */
export function withNotRefused(findings: readonly Finding[], leftOut: readonly Finding[] = []): readonly Finding[] {
  if (!findings.some(isOfEmptyService)) return findings;
  const errors = [...findings, ...leftOut].filter(
    ({severity, node, code}) => severity === 'error' && node !== undefined && codes.has(code),
  );
  if (errors.length === 0) return findings;
  const byService = Map.groupBy(errors, ({service}) => (service === undefined ? null : namespacedName(service)));
  return findings.map(finding => {
    if (!isOfEmptyService(finding) || finding.service === undefined) return finding;
    return corrected(finding, [...(byService.get(null) ?? []), ...(byService.get(namespacedName(finding.service)) ?? [])]);
  });
}

function isOfEmptyService({code}: Finding): boolean {
  return code === 'ST101';
}

/** They say that packets end elsewhere than in a refusal. */
const codes: ReadonlySet<string> = new Set(['ST203', 'ST212', 'ST301']);

function corrected(finding: Finding, errors: readonly Finding[]): Finding {
  const own = errors.filter(error => isAbout(error, finding));
  if (own.length === 0 || finding.ifNotRefused === undefined) return finding;
  const {message, remedy} = finding.ifNotRefused;
  const nodes = someOf([...new Set(own.flatMap(({node}) => node ?? []))], {max: 3, noun: 'node'});
  const because = [...new Set(own.map(({code}) => code))].join(', ');
  return {...finding, message: `${message}. Connections should be refused, and on ${nodes} are not (${because})`, remedy};
}

function isAbout({code, service, affects, family, port, variant}: Finding, empty: Finding): boolean {
  if (empty.service === undefined || (family !== undefined && empty.family !== undefined && family !== empty.family)) return false;
  const name = namespacedName(empty.service);
  if (service === undefined) return affects?.some(one => namespacedName(one) === name) ?? (code === 'ST301' && variant === 'no-refusal');
  return namespacedName(service) === name && (empty.port === undefined || port === undefined || empty.port.name === port.name);
}
