import type {NodeContext} from '../expect/node-context.ts';
import {contains, parseCidr} from '../model/address.ts';
import type {Symptom} from './symptoms/symptom.ts';

/** The network that detects pods contains none of the node's own pods. */
export function uncoveredPods({detector, facts, family, masqueradeAll}: NodeContext): readonly Symptom<never>[] {
  const network = detector.kind === 'cidr' ? parseCidr(detector.cidr) : null;
  const own = facts.podCIDRs.flatMap(text => parseCidr(text) ?? []).filter(cidr => cidr.family === family);
  if (network === null || own.length === 0 || masqueradeAll) return [];
  if (own.some(cidr => contains(network, {family, value: cidr.base, text: cidr.text}))) return [];
  const detail = `clusterCIDR ${network.text} does not hold the pods of this node (${own.map(({text}) => text).join(', ')}): their traffic to Services is masqueraded`;
  return [{kind: 'cluster-cidr-mismatch', family, port: null, detail, expected: [], actual: []}];
}
