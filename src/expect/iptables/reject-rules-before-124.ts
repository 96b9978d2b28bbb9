import {type PlanBefore124, writesNodePort} from './plan-before-124.ts';
import {comment, type RuleWriter, reject} from './rule-text.ts';
import {refusesExternalEntries, refusesLoadBalancerIn} from './iptables-versions.ts';

/** The rules that reject packets to a Service port without endpoints. */
export function writeRejects(plan: PlanBefore124, write: RuleWriter): void {
  const {item, context, text} = plan;
  const {port} = item;
  const {protocol, host} = text;
  const named = comment(`${port.servicePortName} has no endpoints`);
  const target = reject(port.family);
  const rule = (address: string): string => `-d ${address}${host} -p ${protocol} ${named} -m ${protocol} --dport ${port.port} ${target}`;
  write('filter', 'KUBE-SERVICES', rule(port.clusterIP));
  if (!refusesExternalEntries(context.version)) return;
  for (const address of port.externalIPs) write('filter', 'KUBE-EXTERNAL-SERVICES', rule(address));
  const place = refusesLoadBalancerIn(context.version);
  if (place !== null) for (const address of port.loadBalancerVIPs) write('filter', place, rule(address));
  if (!writesNodePort(plan)) return;
  const nodePort = `-m addrtype --dst-type LOCAL -m ${protocol} --dport ${port.nodePort}`;
  write('filter', 'KUBE-EXTERNAL-SERVICES', `-p ${protocol} ${named} ${nodePort} ${target}`);
}
