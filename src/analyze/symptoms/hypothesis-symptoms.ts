import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {LocalDetector, NodeContext} from '../../expect/node-context.ts';
import type {Family} from '../../model/family.ts';
import type {Symptom} from './symptom.ts';

/** Symptoms for a hypothesis: one wrong assumption of a kube-proxy that explains many differences. */

export function otherDetectorSymptom(
  family: Family,
  {found, configured}: {readonly found: string; readonly configured: string},
): Symptom<never> {
  const detail = `the rules of most Services treat ${found} as pods, but kube-proxy's settings say ${configured}: kube-proxy runs with other settings than the ones that were read`;
  return {kind: 'cluster-cidr-mismatch', family, port: null, detail, expected: [], actual: []};
}

export function describeDetector(detector: LocalDetector | 'all'): string {
  if (detector === 'all') return 'no clients (masqueradeAll)';
  switch (detector.kind) {
    case 'cidr':
      return `clients in ${detector.cidr}`;
    case 'bridge':
      return `clients behind ${detector.name}`;
    case 'prefix':
      return `clients behind ${detector.name}+`;
    case 'none':
      return 'all clients (no masquerade rule)';
  }
}

export function nodeNameMismatch({family, facts}: Pick<NodeContext, 'family' | 'facts'>, ports: readonly ServedPort[]): Symptom<never> {
  const names = ports.slice(0, 3).map(({port}) => port.servicePortName);
  const detail = `none of the endpoints that the API places on ${facts.name} is treated as local (${ports.length} Service ports, such as ${names.join(', ')}): its kube-proxy runs under another node name`;
  return {kind: 'node-name-mismatch', family, port: null, detail, expected: [], actual: []};
}

export function zoneUnknown({family}: Pick<NodeContext, 'family'>, ports: readonly ServedPort[]): Symptom<never> {
  const names = ports.slice(0, 3).map(({port}) => port.servicePortName);
  const detail = `for all Services with topology hints the node uses the endpoints that a node without a zone would use (${ports.length}, such as ${names.join(', ')}): its kube-proxy does not know the node's zone`;
  return {kind: 'zone-unknown-to-kube-proxy', family, port: null, detail, expected: [], actual: []};
}
