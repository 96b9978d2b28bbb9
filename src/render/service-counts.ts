import {plural} from '../model/text/plural.ts';
import {sumOf} from '../model/count-services.ts';
import type {Summary, UnservedKind} from '../model/report.ts';

/**
 * Where every Service in scope is: `34 Services: 28 in sync, 3 with findings, 3 without rules`; `1 Service in sync`. `where` are the nodes,
 * such as ` on all 3 nodes`.
 */
export function breakdown(summary: Summary, where = ''): string {
  const {services, servicesInSync, servicesWithFindings, servicesWithoutRules, servicesNotChecked} = summary;
  const parts = [
    ...part(servicesInSync, 'in sync'),
    ...part(servicesWithFindings, 'with findings'),
    ...part(sumOf(servicesWithoutRules), 'without rules'),
    ...part(servicesNotChecked, 'not checked'),
  ];
  const [only = ''] = parts;
  // "1 Service with findings on all 3 nodes" would place the findings on each of them.
  const isPlain = parts.length < 2 && (where === '' || servicesInSync > 0);
  if (isPlain) return `${plural(services, 'Service')}${only.replace(/^\d+/, '')}${where}`;
  return `${plural(services, 'Service')}${where}: ${parts.join(', ')}`;
}

/** `3 Services have no kube-proxy rules: 1 ExternalName, 1 headless, 1 other proxy`; empty without such Services. */
export function withoutRulesText({servicesWithoutRules}: Summary): string {
  const number = sumOf(servicesWithoutRules);
  if (number === 0) return '';
  const reasons = Object.entries(servicesWithoutRules).map(([kind, each]) => `${each} ${kinds[kind as UnservedKind]}`);
  return `${plural(number, 'Service')} ${number === 1 ? 'has' : 'have'} no kube-proxy rules: ${reasons.join(', ')}`;
}

const kinds: Readonly<Record<UnservedKind, string>> = {
  externalName: 'ExternalName',
  headless: 'headless',
  otherProxy: 'other proxy',
  noClusterIP: 'without a cluster IP',
};

function part(number: number, what: string): readonly string[] {
  return number === 0 ? [] : [`${number} ${what}`];
}
