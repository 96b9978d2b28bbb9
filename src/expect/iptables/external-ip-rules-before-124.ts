import {chainName} from './chain-names.ts';
import type {PlanBefore124} from './plan-before-124.ts';
import {comment, type RuleWriter} from './rule-text.ts';
import {localSource} from './service-rules.ts';
import {appliesPolicyToExternalIPs, excludesBridgedExternalIPs, masqueradesInServiceChain} from './iptables-versions.ts';

/** The rules of one external IP in KUBE-SERVICES. */
export function writeExternalIP(plan: PlanBefore124, address: string, write: RuleWriter): void {
  const {version} = plan.context;
  const target = isLocal(plan) ? plan.external : chainName('SVC', plan.item.port.hash);
  const rule = externalIPRule(plan, address);
  if (excludesBridgedExternalIPs(version)) {
    if (!isLocal(plan)) write('nat', 'KUBE-SERVICES', `${rule} -j KUBE-MARK-MASQ`);
    write('nat', 'KUBE-SERVICES', `${rule} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ${target}`);
    write('nat', 'KUBE-SERVICES', `${rule} -m addrtype --dst-type LOCAL -j ${target}`);
    return;
  }
  if (!masqueradesInServiceChain(version) && !isLocal(plan)) write('nat', 'KUBE-SERVICES', externalIPMasquerade(plan, address));
  write('nat', 'KUBE-SERVICES', `${rule} -j ${target}`);
}

/** Packets to an external IP that do not come from this node's pods are masqueraded; without a detector all are. */
export function externalIPMasquerade(plan: PlanBefore124, address: string): string {
  const pods = localSource(plan.context);
  if (pods === null) return `${externalIPRule(plan, address)} -j KUBE-MARK-MASQ`;
  const [source, link] = plan.context.detector.kind === 'cidr' ? [`! ${pods} `, ''] : ['', ` ! ${pods}`];
  return `${externalIPRule(plan, address, {source, link})} -j KUBE-MARK-MASQ`;
}

function externalIPRule({item: {port}, text: {protocol, host}}: PlanBefore124, address: string, from = {source: '', link: ''}): string {
  return `${from.source}-d ${address}${host}${from.link} -p ${protocol} ${comment(`${port.servicePortName} external IP`)} -m ${protocol} --dport ${port.port}`;
}

function isLocal({item: {port}, context: {version, gates}}: PlanBefore124): boolean {
  return port.externalPolicyLocal && appliesPolicyToExternalIPs(version, gates);
}
