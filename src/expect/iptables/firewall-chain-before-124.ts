import {chainName} from './chain-names.ts';
import type {PlanBefore124} from './plan-before-124.ts';
import {comment, type RuleWriter} from './rule-text.ts';
import {ownAddressesInRanges, sourceText} from './service-rules.ts';

/** KUBE-FW: for every load-balancer address its source ranges, then the drop mark. All addresses share one chain. */
export function writeFirewallChain(plan: PlanBefore124, write: RuleWriter): void {
  const {port} = plan.item;
  const chain = chainName('FW', port.hash);
  const text = comment(`${port.servicePortName} loadbalancer IP`);
  for (const address of port.loadBalancerVIPs) {
    if (!port.externalPolicyLocal) write('nat', chain, `${text} -j KUBE-MARK-MASQ`);
    if (port.sourceRanges.length === 0) write('nat', chain, `${text} -j ${plan.external}`);
    for (const range of port.sourceRanges) write('nat', chain, `${sourceText(range)}${text} -j ${plan.external}`);
    if (ownAddressesInRanges(port, plan.context).includes(address))
      write('nat', chain, `-s ${address}${plan.text.host} ${text} -j ${plan.external}`);
    write('nat', chain, `${text} -j KUBE-MARK-DROP`);
  }
}
