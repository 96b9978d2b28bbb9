import {ensuresMarkDrop} from '../../../expect/iptables/iptables-versions.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {Ruleset} from '../../../model/ruleset.ts';
import {hasExternalEntry} from '../../../model/service-port.ts';
import type {BaseRuleSymptom, LeftBaseRules} from './base-rules-case.ts';
import {passChain} from './pass-chain.ts';

/** Up to 1.24, kube-proxy only marks packets to drop; rules of the kubelet drop them. */
export function analyzeMarkDrop(given: LeftBaseRules): readonly BaseRuleSymptom[] {
  const {expected, actual} = given;
  if (!ensuresMarkDrop(expected.context.version) || !expected.ports.some(isMarkedForDropping)) return [];
  if (actual.tables.get('nat')?.complete !== true || actual.tables.get('filter')?.complete !== true) return [];
  const mark = passChain(given, 'nat', 'KUBE-MARK-DROP', 0)?.mark ?? 0;
  // If no kubelet writes its rules at all, the node is set up that way.
  if (mark === 0 && actual.chain('filter', 'KUBE-FIREWALL') === undefined) return [];
  const broken: string[] = [];
  if (mark === 0) broken.push('KUBE-MARK-DROP sets no mark');
  else if (passChain(given, 'filter', 'KUBE-FIREWALL', mark)?.dropped === false) broken.push('KUBE-FIREWALL does not drop what is marked');
  for (const chain of ['INPUT', 'OUTPUT'])
    if (!leadsTo(actual, chain, 'KUBE-FIREWALL')) broken.push(`filter/${chain} does not lead to KUBE-FIREWALL`);
  if (broken.length === 0) return [];
  const chains = [actual.chain('nat', 'KUBE-MARK-DROP'), actual.chain('filter', 'KUBE-FIREWALL')];
  const rules = chains.flatMap(chain => chain?.rules() ?? []).slice(0, 6);
  const detail = `${broken.join('; ')}: packets that loadBalancerSourceRanges or a Local traffic policy keep out are not dropped (the kubelet up to 1.26 writes these rules)`;
  return [{symptom: {kind: 'missing-rule', severity: 'warning', detail, expected: [], actual: rules}, explained: []}];
}

function isMarkedForDropping({port, endpoints}: PortOnNode): boolean {
  const ranges = port.sourceRanges.length > 0 && port.loadBalancerVIPs.length > 0;
  return endpoints.hasAny && (ranges || (port.externalPolicyLocal && hasExternalEntry(port) && endpoints.local.length === 0));
}

function leadsTo(actual: Ruleset, chain: string, target: string): boolean {
  const rules = actual.chain('filter', chain)?.rules() ?? [];
  return rules.some(rule => rule.target?.name === target);
}
