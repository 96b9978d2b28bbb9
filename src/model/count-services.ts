import type {Finding, ServiceName} from './finding.ts';
import {namespacedName} from './text/namespaced-name.ts';
import type {NodeReport, Summary} from './report.ts';

export interface ServicesInScope {
  /** The Services that kube-proxy serves. */
  readonly served: readonly ServiceName[];
  readonly servicesWithoutRules: Summary['servicesWithoutRules'];
  /** The Services whose endpoints could not be read. */
  readonly unread: number;
}

type ServiceCounts = Pick<Summary, 'services' | 'servicesInSync' | 'servicesWithFindings' | 'servicesWithoutRules' | 'servicesNotChecked'>;

/** Counts every Service in scope once, so that the counts of a report add up. */
export function countServices(
  {served, servicesWithoutRules, unread}: ServicesInScope,
  findings: readonly Finding[],
  nodes: readonly NodeReport[],
): ServiceCounts {
  const affected = affectedServices(findings);
  const isChecked = nodes.some(({status}) => status === 'checked');
  const withFindings = affected === 'all' ? served.length : served.filter(service => affected.has(namespacedName(service))).length;
  const others = served.length - withFindings;
  return {
    services: served.length + sumOf(servicesWithoutRules) + unread,
    servicesInSync: isChecked ? others : 0,
    servicesWithFindings: withFindings,
    servicesWithoutRules,
    servicesNotChecked: (isChecked ? 0 : others) + unread,
  };
}

/** The number of Services without kube-proxy rules, whatever the reason. */
export function sumOf(byReason: Summary['servicesWithoutRules']): number {
  return Object.values(byReason).reduce((sum, number) => sum + number, 0);
}

/** An error of a node as a whole affects every Service. One of a Service that the API does not have (ST205) affects none of the others. */
export function affectsAllServices({code, severity, node, service}: Finding): boolean {
  return severity === 'error' && node !== undefined && service === undefined && code !== 'ST205';
}

/** As `namespace/name`. Findings known from a baseline count too: the Service is not in sync. */
function affectedServices(findings: readonly Finding[]): ReadonlySet<string> | 'all' {
  if (findings.some(affectsAllServices)) return 'all';
  return new Set(
    findings.flatMap(({severity, service}) => (service === undefined || severity === 'info' ? [] : [namespacedName(service)])),
  );
}
