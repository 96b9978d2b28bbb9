import {writeBalancing} from './balancing-before-124.ts';
import {chainName} from './chain-names.ts';
import type {PlanBefore124} from './plan-before-124.ts';
import {comment, type RuleWriter} from './rule-text.ts';
import {localSource} from './service-rules.ts';
import {cutsShortLocalTraffic, keepsAffinityUnderLocalPolicy, numbersBalancingRules} from './iptables-versions.ts';

/** KUBE-XLB: pods and the node itself use all endpoints, other clients only those on this node. */
export function writeLocalChain(plan: PlanBefore124, write: RuleWriter): void {
  const {item, context} = plan;
  const {port, endpoints} = item;
  const chain = chainName('XLB', port.hash);
  const cluster = chainName('SVC', port.hash);
  const name = port.servicePortName;
  const pods = localSource(context);
  if (pods !== null)
    write('nat', chain, `${pods} ${comment('Redirect pods trying to reach external loadbalancer VIP to clusterIP')} -j ${cluster}`);
  if (cutsShortLocalTraffic(context.version)) {
    write('nat', chain, `${comment(`masquerade LOCAL traffic for ${name} LB IP`)} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`);
    write('nat', chain, `${comment(`route LOCAL traffic for ${name} LB IP to service chain`)} -m addrtype --src-type LOCAL -j ${cluster}`);
  }
  if (endpoints.local.length === 0) return write('nat', chain, `${comment(`${name} has no local endpoints`)} -j KUBE-MARK-DROP`);
  const numbered = numbersBalancingRules(context.version);
  const named = item.large && !numbered ? '' : `${comment(name)} `;
  const balancingComment = (index: number): string => (numbered ? `${comment(`Balancing rule ${index} for ${name}`)} ` : named);
  const affinity = keepsAffinityUnderLocalPolicy(context.version);
  writeBalancing(plan, write, {chain, endpoints: endpoints.local, affinity, affinityComment: named, balancingComment});
}
