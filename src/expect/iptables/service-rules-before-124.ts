import type {Endpoint} from '../../model/endpoint.ts';
import {chainName} from './names.ts';
import {type NodeContext, nodePortDestinations} from '../node-context.ts';
import {comment, type ProtocolText, probability, protocolText, type RuleWriter, reject} from './rule-text.ts';
import {
  affinityMatch,
  clusterIPMasquerade,
  localSource,
  ownAddressesInRanges,
  type PortOnNode,
  sourceText,
  writeEndpointRules,
} from './service-rules.ts';
import {masqueradesInServiceChain, nodePortsNeedAddress, numbersBalancingRules} from './versions.ts';

/**
 * All rules of one Service port, kube-proxy 1.21 to 1.23: KUBE-XLB in place of KUBE-EXT and KUBE-SVL, a KUBE-FW chain for
 * every load-balancer address, and KUBE-MARK-DROP for what must not pass. Follows `syncProxyRules` of those versions.
 */
export function writeServiceRulesBefore124(item: PortOnNode, context: NodeContext, write: RuleWriter): void {
  const {port, endpoints} = item;
  const plan = {
    item,
    context,
    text: protocolText(port.family, port.protocol),
    external: chainName(port.externalPolicyLocal ? 'XLB' : 'SVC', port.hash),
  };
  if (port.healthCheckNodePort !== 0) {
    write(
      'filter',
      'KUBE-NODEPORTS',
      `-p tcp ${comment(`${port.servicePortName} health check node port`)} -m tcp --dport ${port.healthCheckNodePort} -j ACCEPT`,
    );
  }
  if (!endpoints.hasAny) return writeRejects(plan, write);
  writeEntries(plan, write);
  writeServiceChain(plan, write);
  writeFirewallChain(plan, write);
  if (port.externalPolicyLocal) writeLocalChain(plan, write);
  for (const endpoint of endpoints.reachable) writeEndpointRules({...plan, endpoint}, write);
}

interface Plan {
  readonly item: PortOnNode;
  readonly context: NodeContext;
  readonly text: ProtocolText;
  /** Where traffic from outside goes. */
  readonly external: string;
}

function writeRejects({item: {port}, context, text: {protocol, host}}: Plan, write: RuleWriter): void {
  const text = comment(`${port.servicePortName} has no endpoints`);
  const target = reject(port.family);
  const rule = (address: string): string => `-d ${address}${host} -p ${protocol} ${text} -m ${protocol} --dport ${port.port} ${target}`;
  write('filter', 'KUBE-SERVICES', rule(port.clusterIP));
  for (const address of [...port.externalIPs, ...port.loadBalancerVIPs]) write('filter', 'KUBE-EXTERNAL-SERVICES', rule(address));
  if (!writesNodePort(port.nodePort, context)) return;
  write(
    'filter',
    'KUBE-EXTERNAL-SERVICES',
    `-p ${protocol} ${text} -m addrtype --dst-type LOCAL -m ${protocol} --dport ${port.nodePort} ${target}`,
  );
}

function writesNodePort(nodePort: number, context: NodeContext): boolean {
  return nodePort !== 0 && !(nodePortsNeedAddress(context.version) && nodePortDestinations(context)?.length === 0);
}

function writeEntries(plan: Plan, write: RuleWriter): void {
  const {item, context, text, external} = plan;
  const {port} = item;
  const {protocol, host} = text;
  const inServices = !masqueradesInServiceChain(context.version);
  const rule = (address: string, what: string, target: string): string =>
    `-d ${address}${host} -p ${protocol} ${comment(`${port.servicePortName} ${what}`)} -m ${protocol} --dport ${port.port} -j ${target}`;
  const masquerade = inServices ? clusterIPMasquerade(item, context) : null;
  if (masquerade !== null) write('nat', 'KUBE-SERVICES', masquerade);
  write('nat', 'KUBE-SERVICES', rule(port.clusterIP, 'cluster IP', chainName('SVC', port.hash)));
  for (const address of port.externalIPs) {
    if (inServices && !port.externalPolicyLocal) write('nat', 'KUBE-SERVICES', externalIPMasquerade(plan, address));
    write('nat', 'KUBE-SERVICES', rule(address, 'external IP', external));
  }
  for (const address of port.loadBalancerVIPs) write('nat', 'KUBE-SERVICES', rule(address, 'loadbalancer IP', chainName('FW', port.hash)));
  if (!writesNodePort(port.nodePort, context)) return;
  const nodePort = `-p ${protocol} ${comment(port.servicePortName)} -m ${protocol} --dport ${port.nodePort}`;
  const loopback = port.family === 'IPv4' ? '127.0.0.0/8' : '::1/128';
  if (port.externalPolicyLocal) write('nat', 'KUBE-NODEPORTS', `-s ${loopback} ${nodePort} -j KUBE-MARK-MASQ`);
  else if (inServices) write('nat', 'KUBE-NODEPORTS', `${nodePort} -j KUBE-MARK-MASQ`);
  write('nat', 'KUBE-NODEPORTS', `${nodePort} -j ${external}`);
}

function externalIPMasquerade({item: {port}, context, text: {protocol, host}}: Plan, address: string): string {
  const rest = `-p ${protocol} ${comment(`${port.servicePortName} external IP`)} -m ${protocol} --dport ${port.port} -j KUBE-MARK-MASQ`;
  const pods = localSource(context);
  if (pods === null) return `-d ${address}${host} ${rest}`;
  return context.detector.kind === 'cidr' ? `! ${pods} -d ${address}${host} ${rest}` : `-d ${address}${host} ! ${pods} ${rest}`;
}

function writeServiceChain(plan: Plan, write: RuleWriter): void {
  const {item, context, text} = plan;
  const {port, endpoints} = item;
  const chain = chainName('SVC', port.hash);
  if (masqueradesInServiceChain(context.version)) {
    const masquerade = clusterIPMasquerade(item, context);
    if (masquerade !== null) write('nat', chain, masquerade);
    if (!port.externalPolicyLocal) {
      for (const address of port.externalIPs) write('nat', chain, externalIPMasquerade(plan, address));
      if (writesNodePort(port.nodePort, context)) {
        write(
          'nat',
          chain,
          `-p ${text.protocol} ${comment(port.servicePortName)} -m ${text.protocol} --dport ${port.nodePort} -j KUBE-MARK-MASQ`,
        );
      }
    }
  }
  const named = item.large ? '' : `${comment(port.servicePortName)} `;
  writeBalancing(plan, write, {chain, endpoints: endpoints.cluster, affinityComment: named, balancingComment: () => named});
}

interface Balancing {
  readonly chain: string;
  readonly endpoints: readonly Endpoint[];
  readonly affinityComment: string;
  readonly balancingComment: (index: number) => string;
}

function writeBalancing({item, context}: Plan, write: RuleWriter, {chain, endpoints, affinityComment, balancingComment}: Balancing): void {
  const {port, endpointChain} = item;
  if (port.affinitySeconds !== null) {
    for (const endpoint of endpoints) {
      const target = endpointChain(endpoint);
      write('nat', chain, `${affinityComment}${affinityMatch(port.affinitySeconds, target, context)} -j ${target}`);
    }
  }
  for (const [index, endpoint] of endpoints.entries()) {
    const left = endpoints.length - index;
    const statistic = left > 1 ? `-m statistic --mode random --probability ${probability(left)} ` : '';
    write('nat', chain, `${balancingComment(index)}${statistic}-j ${endpointChain(endpoint)}`);
  }
}

/** KUBE-FW: for every load-balancer address, its ranges and then the mark to drop. All addresses share one chain. */
function writeFirewallChain(plan: Plan, write: RuleWriter): void {
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

/** KUBE-XLB: pods and the node itself use all endpoints, everybody else those of this node. */
function writeLocalChain(plan: Plan, write: RuleWriter): void {
  const {item, context} = plan;
  const {port, endpoints} = item;
  const chain = chainName('XLB', port.hash);
  const cluster = chainName('SVC', port.hash);
  const name = port.servicePortName;
  const pods = localSource(context);
  if (pods !== null)
    write('nat', chain, `${pods} ${comment('Redirect pods trying to reach external loadbalancer VIP to clusterIP')} -j ${cluster}`);
  write('nat', chain, `${comment(`masquerade LOCAL traffic for ${name} LB IP`)} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`);
  write('nat', chain, `${comment(`route LOCAL traffic for ${name} LB IP to service chain`)} -m addrtype --src-type LOCAL -j ${cluster}`);
  if (endpoints.local.length === 0) return write('nat', chain, `${comment(`${name} has no local endpoints`)} -j KUBE-MARK-DROP`);
  const numbered = numbersBalancingRules(context.version);
  const named = item.large && !numbered ? '' : `${comment(name)} `;
  const balancingComment = (index: number): string => (numbered ? `${comment(`Balancing rule ${index} for ${name}`)} ` : named);
  writeBalancing(plan, write, {chain, endpoints: endpoints.local, affinityComment: named, balancingComment});
}
