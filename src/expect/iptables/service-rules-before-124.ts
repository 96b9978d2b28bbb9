import type {RuleWriter} from './rule-text.ts';
import {comment, protocolText} from './rule-text.ts';
import {writeServiceChain} from './service-chain-before-124.ts';
import {writeEntries} from './entry-rules-before-124.ts';
import {writeFirewallChain} from './firewall-chain-before-124.ts';
import {writeLocalChain} from './local-chain-before-124.ts';
import {chainName} from './chain-names.ts';
import type {NodeContext} from '../node-context.ts';
import type {PlanBefore124} from './plan-before-124.ts';
import {writeRejects} from './reject-rules-before-124.ts';
import {type PortOnNode, writeEndpointRules} from './service-rules.ts';
import {acceptsHealthChecks, leavesOutEmptyServices} from './iptables-versions.ts';

/**
 * All rules of one Service port, kube-proxy 1.5 to 1.23: KUBE-XLB in place of KUBE-EXT and KUBE-SVL, a KUBE-FW chain for every
 * load-balancer address, and KUBE-MARK-DROP for packets to drop. Follows `syncProxyRules` of those versions.
 */
export function writeServiceRulesBefore124(item: PortOnNode, context: NodeContext, write: RuleWriter): void {
  const {port, endpoints} = item;
  const plan: PlanBefore124 = {
    item,
    context,
    text: protocolText(port.family, port.protocol),
    external: chainName(port.externalPolicyLocal ? 'XLB' : 'SVC', port.hash),
  };
  if (port.healthCheckNodePort !== 0 && acceptsHealthChecks(context.version)) writeHealthCheck(plan, write);
  if (!endpoints.hasAny) writeRejects(plan, write);
  if (!endpoints.hasAny && leavesOutEmptyServices(context.version)) return;
  writeEntries(plan, write);
  writeServiceChain(plan, write);
  writeFirewallChain(plan, write);
  if (port.externalPolicyLocal && endpoints.hasAny) writeLocalChain(plan, write);
  writeEndpointRules(plan, write);
}

function writeHealthCheck({item: {port}}: PlanBefore124, write: RuleWriter): void {
  const text = comment(`${port.servicePortName} health check node port`);
  write('filter', 'KUBE-NODEPORTS', `-p tcp ${text} -m tcp --dport ${port.healthCheckNodePort} -j ACCEPT`);
}
