import {writeExternalIP} from './external-ip-rules-before-124.ts';
import {chainName} from './chain-names.ts';
import {type PlanBefore124, writesNodePort} from './plan-before-124.ts';
import {comment, type RuleWriter} from './rule-text.ts';
import {clusterIPMasquerade} from './service-rules.ts';
import {keepsAffinityUnderLocalPolicy, masqueradesInServiceChain, masqueradesTwice} from './iptables-versions.ts';

/** The rules in shared chains that match packets to a Service port. */
export function writeEntries(plan: PlanBefore124, write: RuleWriter): void {
  const {port} = plan.item;
  if (!masqueradesInServiceChain(plan.context.version)) {
    for (const rule of clusterIPMasquerades(plan)) write('nat', 'KUBE-SERVICES', rule);
  }
  write('nat', 'KUBE-SERVICES', addressRule(plan, port.clusterIP, {what: 'cluster IP', target: chainName('SVC', port.hash)}));
  for (const address of port.externalIPs) writeExternalIP(plan, address, write);
  for (const address of port.loadBalancerVIPs)
    write('nat', 'KUBE-SERVICES', addressRule(plan, address, {what: 'loadbalancer IP', target: chainName('FW', port.hash)}));
  if (writesNodePort(plan)) writeNodePort(plan, write);
}

function addressRule({item: {port}, text: {protocol, host}}: PlanBefore124, address: string, to: {what: string; target: string}): string {
  return `-d ${address}${host} -p ${protocol} ${comment(`${port.servicePortName} ${to.what}`)} -m ${protocol} --dport ${port.port} -j ${to.target}`;
}

/** At most one rule. 1.5 writes two: one for masqueradeAll and one for the pod network. */
function clusterIPMasquerades({item, context}: PlanBefore124): readonly string[] {
  const rules = [clusterIPMasquerade(item, context)];
  if (context.masqueradeAll && masqueradesTwice(context.version)) rules.push(clusterIPMasquerade(item, {...context, masqueradeAll: false}));
  return rules.filter(rule => rule !== null);
}

function writeNodePort({item: {port}, context: {version}, text: {protocol}, external}: PlanBefore124, write: RuleWriter): void {
  const nodePort = `-p ${protocol} ${comment(port.servicePortName)} -m ${protocol} --dport ${port.nodePort}`;
  const loopback = port.family === 'IPv4' ? '127.0.0.0/8' : '::1/128';
  if (port.externalPolicyLocal) {
    if (keepsAffinityUnderLocalPolicy(version)) write('nat', 'KUBE-NODEPORTS', `-s ${loopback} ${nodePort} -j KUBE-MARK-MASQ`);
  } else if (!masqueradesInServiceChain(version)) {
    write('nat', 'KUBE-NODEPORTS', `${nodePort} -j KUBE-MARK-MASQ`);
  }
  write('nat', 'KUBE-NODEPORTS', `${nodePort} -j ${external}`);
}
