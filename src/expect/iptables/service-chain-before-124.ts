import {writeBalancing} from './balancing-before-124.ts';
import {externalIPMasquerade} from './external-ip-rules-before-124.ts';
import {chainName} from './chain-names.ts';
import {type PlanBefore124, writesNodePort} from './plan-before-124.ts';
import {comment, type RuleWriter} from './rule-text.ts';
import {clusterIPMasquerade} from './service-rules.ts';
import {masqueradesInServiceChain} from './iptables-versions.ts';

/** KUBE-SVC: balances over all endpoints; in 1.22 and 1.23 after the masquerade rules. */
export function writeServiceChain(plan: PlanBefore124, write: RuleWriter): void {
  const {item, context} = plan;
  const {port, endpoints, large} = item;
  const chain = chainName('SVC', port.hash);
  if (masqueradesInServiceChain(context.version)) for (const rule of masquerades(plan)) write('nat', chain, rule);
  const named = large ? '' : `${comment(port.servicePortName)} `;
  const balancingComment = (): string => named;
  writeBalancing(plan, write, {chain, endpoints: endpoints.cluster, affinity: true, affinityComment: named, balancingComment});
}

function masquerades(plan: PlanBefore124): readonly string[] {
  const {item, context, text} = plan;
  const {port} = item;
  const inside = clusterIPMasquerade(item, context);
  const rules = inside === null ? [] : [inside];
  if (port.externalPolicyLocal) return rules;
  rules.push(...port.externalIPs.map(address => externalIPMasquerade(plan, address)));
  if (writesNodePort(plan))
    rules.push(`-p ${text.protocol} ${comment(port.servicePortName)} -m ${text.protocol} --dport ${port.nodePort} -j KUBE-MARK-MASQ`);
  return rules;
}
