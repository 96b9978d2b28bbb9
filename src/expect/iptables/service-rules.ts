import {canonicalAddress, contains, parseAddress, parseCidr} from '../../model/address.ts';
import type {Endpoint, PortWithChains} from '../../model/endpoint.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {once} from '../../model/once.ts';
import {chainName} from './chain-names.ts';
import {type NodeContext, nodePortDestinations} from '../node-context.ts';
import {comment, probability, type ProtocolText, protocolText, recentMask, reject, type RuleWriter} from './rule-text.ts';
import {
  countsWithNfacct,
  decimalsOfProbability,
  dropsInFilter,
  explainsFirewallChain,
  hasProxyFirewall,
  nodePortsNeedAddress,
} from './iptables-versions.ts';
import {keepsAddressSpelling, writesExternalIPs} from '../cluster/proxy-versions.ts';
import {chainsUsed} from '../cluster/served-port.ts';

/** One Service port with the input for its rules on a node. */
export interface PortOnNode extends PortWithChains {
  /** Comments are left out if kube-proxy has more than 1,000 endpoints. */
  readonly large: boolean;
}

/**
 * All rules of one Service port, kube-proxy 1.24 and later. Follows the loop over service ports in `syncProxyRules`. The rules of one chain
 * are written consecutively.
 */
export function writeServiceRules(item: PortOnNode, context: NodeContext, write: RuleWriter): void {
  const plan = planOf(item, context);
  if (plan.hasInternal) writeClusterIP(plan, write);
  if (plan.usesExternalChain) writeExternalEntries(plan, write);
  // Nearly all Service ports have endpoints for every client: then table filter has no rule of theirs.
  if (!plan.hasInternal || !plan.hasExternal || plan.usesFirewall) writeFilterRules(plan, write);
  if (item.port.healthCheckNodePort !== 0) writeHealthCheck(plan, write);
  if (plan.usesExternalChain) writeExternalChain(plan, write);
  if (plan.usesFirewall) writeFirewallChain(plan, write);
  writePolicyChain(plan, write, 'SVC');
  if (plan.usesLocal || plan.internalRole === 'SVL') writePolicyChain(plan, write, 'SVL');
  writeEndpointRules(plan, write);
}

type ServiceRulesPlan = ReturnType<typeof planOf>;

function planOf(item: PortOnNode, context: NodeContext) {
  const {port} = item;
  const roleOf = (isLocal: boolean): 'SVC' | 'SVL' => (isLocal ? 'SVL' : 'SVC');
  return {
    ...chainsUsed(item, !dropsInFilter(context.version)),
    item,
    context,
    text: protocolText(port.family, port.protocol),
    internalRole: roleOf(port.internalPolicyLocal),
    externalRole: roleOf(port.externalPolicyLocal),
    nodePorts: writesNodePort(item, context),
  };
}

/** Whether rules for its node port are written at all. */
export function writesNodePort({port: {nodePort}}: PortOnNode, context: NodeContext): boolean {
  return nodePort !== 0 && !(nodePortsNeedAddress(context.version) && nodePortDestinations(context)?.length === 0);
}

function writeClusterIP(plan: ServiceRulesPlan, write: RuleWriter): void {
  const {port} = plan.item;
  const chain = chainName(plan.internalRole, port.hash);
  write('nat', 'KUBE-SERVICES', addressRule(plan, port.clusterIP, `${port.servicePortName} cluster IP`, `-j ${chain}`));
}

/** What a rule does with packets to the Service port at one of its addresses. `said`: the comment of the rule. */
export function addressRule(
  {item: {port}, text: {protocol, host}}: Pick<ServiceRulesPlan, 'item' | 'text'>,
  address: string,
  said: string,
  target: string,
): string {
  return `-d ${address}${host} -p ${protocol} ${comment(said)} -m ${protocol} --dport ${port.port} ${target}`;
}

/** Of a Service port with endpoints and with entries other than the cluster IP. */
function writeExternalEntries(plan: ServiceRulesPlan, write: RuleWriter): void {
  const {item, context, text} = plan;
  const {port} = item;
  const name = port.servicePortName;
  const {protocol} = text;
  const external = chainName('EXT', port.hash);
  for (const address of allowedExternalIPs(plan))
    write('nat', 'KUBE-SERVICES', addressRule(plan, address, `${name} external IP`, `-j ${external}`));
  const balancer = plan.usesFirewall ? chainName('FW', port.hash) : external;
  for (const address of port.loadBalancerVIPs)
    write('nat', 'KUBE-SERVICES', addressRule(plan, address, `${name} loadbalancer IP`, `-j ${balancer}`));
  if (!plan.nodePorts) return;
  const nodePort = `-m ${protocol} --dport ${port.nodePort}`;
  if (context.nfacct && countsWithNfacct(context.version) && port.family === 'IPv4' && context.localhostNodePorts) {
    write(
      'nat',
      'KUBE-NODEPORTS',
      `-d 127.0.0.0/8 -p ${protocol} ${comment(name)} ${nodePort} -m nfacct --nfacct-name  localhost_nps_accepted_pkts -j ${external}`,
    );
  }
  write('nat', 'KUBE-NODEPORTS', `-p ${protocol} ${comment(name)} ${nodePort} -j ${external}`);
}

function allowedExternalIPs({item, context}: ServiceRulesPlan): readonly string[] {
  return writesExternalIPs(context.version, context.gates) ? item.port.externalIPs : [];
}

function writeFilterRules(plan: ServiceRulesPlan, write: RuleWriter): void {
  const {port} = plan.item;
  const {said, target} = verdictOf(plan);
  if (!plan.hasInternal) write('filter', 'KUBE-SERVICES', addressRule(plan, port.clusterIP, said, target));
  if (!plan.hasExternal) {
    for (const address of [...allowedExternalIPs(plan), ...port.loadBalancerVIPs])
      write('filter', 'KUBE-EXTERNAL-SERVICES', addressRule(plan, address, said, target));
    if (plan.nodePorts) writeNodePortVerdict(plan, said, target, write);
  }
  if (!plan.usesFirewall || !hasProxyFirewall(plan.context.version)) return;
  const unaccepted = `${port.servicePortName} traffic not accepted by ${chainName('FW', port.hash)}`;
  for (const address of port.loadBalancerVIPs) write('filter', 'KUBE-PROXY-FIREWALL', addressRule(plan, address, unaccepted, '-j DROP'));
}

/** The rule that refuses or drops packets to the node port. */
export function writeNodePortVerdict(
  {item: {port}, text: {protocol}}: Pick<ServiceRulesPlan, 'item' | 'text'>,
  said: string,
  target: string,
  write: RuleWriter,
): void {
  const nodePort = `-m addrtype --dst-type LOCAL -m ${protocol} --dport ${port.nodePort}`;
  write('filter', 'KUBE-EXTERNAL-SERVICES', `-p ${protocol} ${comment(said)} ${nodePort} ${target}`);
}

/** The outcome of packets that no endpoint may serve. */
function verdictOf({item: {port, endpoints}}: ServiceRulesPlan): {readonly said: string; readonly target: string} {
  if (!endpoints.hasAny) return {said: `${port.servicePortName} has no endpoints`, target: reject(port.family)};
  return {said: `${port.servicePortName} has no local endpoints`, target: '-j DROP'};
}

export function writeHealthCheck({item: {port}}: Pick<ServiceRulesPlan, 'item'>, write: RuleWriter): void {
  write(
    'filter',
    'KUBE-NODEPORTS',
    `-p tcp ${comment(`${port.servicePortName} health check node port`)} -m tcp --dport ${port.healthCheckNodePort} -j ACCEPT`,
  );
}

/** KUBE-EXT: masquerading under the Cluster policy; the bypass rules for pods and for the node itself under the Local policy. */
function writeExternalChain(plan: ServiceRulesPlan, write: RuleWriter): void {
  const {port} = plan.item;
  const chain = chainName('EXT', port.hash);
  const cluster = chainName('SVC', port.hash);
  const destinations = `${port.servicePortName} external destinations`;
  if (port.externalPolicyLocal) {
    const fromPods = localSource(plan.context);
    if (fromPods !== null) write('nat', chain, `${fromPods} ${comment(`pod traffic for ${destinations}`)} -j ${cluster}`);
    write('nat', chain, `${comment(`masquerade LOCAL traffic for ${destinations}`)} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`);
    write('nat', chain, `${comment(`route LOCAL traffic for ${destinations}`)} -m addrtype --src-type LOCAL -j ${cluster}`);
  } else {
    write('nat', chain, `${comment(`masquerade traffic for ${destinations}`)} -j KUBE-MARK-MASQ`);
  }
  if (plan.hasExternal) write('nat', chain, `-j ${chainName(plan.externalRole, port.hash)}`);
}

/** The match for traffic of this node's pods; null without a detector. */
export function localSource({detector}: NodeContext): string | null {
  if (detector.kind === 'none') return null;
  return detector.kind === 'cidr' ? `-s ${detector.cidr}` : `-i ${detector.name}`;
}

function writeFirewallChain(plan: ServiceRulesPlan, write: RuleWriter): void {
  const {port} = plan.item;
  const chain = chainName('FW', port.hash);
  const text = comment(`${port.servicePortName} loadbalancer IP`);
  const external = `${text} -j ${chainName('EXT', port.hash)}`;
  const own = ownAddressesInRanges(port, plan.context);
  if (!hasProxyFirewall(plan.context.version)) {
    for (const address of port.loadBalancerVIPs) {
      for (const range of port.sourceRanges) write('nat', chain, `${sourceText(range)}${external}`);
      if (own.includes(address)) write('nat', chain, `-s ${address}${plan.text.host} ${external}`);
      write('nat', chain, `${text} -j KUBE-MARK-DROP`);
    }
    return;
  }
  for (const range of port.sourceRanges) write('nat', chain, `${sourceText(range)}${external}`);
  for (const address of own) write('nat', chain, `-s ${address}${plan.text.host} ${external}`);
  if (explainsFirewallChain(plan.context.version)) {
    write('nat', chain, comment(`other traffic to ${port.servicePortName} will be dropped by KUBE-PROXY-FIREWALL`));
  }
}

/** iptables-save leaves out a network with prefix 0. */
export function sourceText(range: string): string {
  return range.endsWith('/0') ? '' : `-s ${range} `;
}

/**
 * If the source ranges contain the node itself, each load-balancer address may reach itself: the node's packets to it have it as source.
 */
export function ownAddressesInRanges(port: ServicePort, context: NodeContext): readonly string[] {
  if (port.sourceRanges.length === 0) return [];
  const node = parseAddress(context.nodeIP);
  return node !== null && rangesOf(port).some(range => contains(range, node)) ? port.loadBalancerVIPs : [];
}

const rangesOf = once(({sourceRanges}: ServicePort) => sourceRanges.flatMap(range => parseCidr(range) ?? []));

/** KUBE-SVC and KUBE-SVL: masquerade of cluster-IP traffic, affinity, balancing. */
function writePolicyChain(plan: ServiceRulesPlan, write: RuleWriter, role: 'SVC' | 'SVL'): void {
  const {port, endpoints, large} = plan.item;
  const chain = chainName(role, port.hash);
  if (plan.hasInternal && plan.internalRole === role) {
    const masquerade = clusterIPMasquerade(plan.item, plan.context);
    if (masquerade !== null) write('nat', chain, masquerade);
  }
  if (role === 'SVL' && plan.usesLocal && endpoints.local.length === 0)
    write('nat', chain, `${comment(`${port.servicePortName} has no local endpoints`)} -j KUBE-MARK-DROP`);
  if (!(role === 'SVC' ? plan.usesCluster : plan.usesLocal)) return;
  const picked = role === 'SVC' ? endpoints.cluster : endpoints.local;
  const commentOf = ({hostPort}: Endpoint): string => (large ? '' : `${comment(`${port.servicePortName} -> ${hostPort}`)} `);
  writeBalancing(plan, write, {chain, endpoints: picked, sticky: picked, commentOf});
}

/** Traffic to the cluster IP that does not come from this node's pods is masqueraded; null without a detector. */
export function clusterIPMasquerade({port}: PortOnNode, context: NodeContext): string | null {
  const {protocol, host} = protocolText(port.family, port.protocol);
  const destination = `-d ${port.clusterIP}${host}`;
  const rest = `-p ${protocol} ${comment(`${port.servicePortName} cluster IP`)} -m ${protocol} --dport ${port.port} -j KUBE-MARK-MASQ`;
  if (context.masqueradeAll) return `${destination} ${rest}`;
  const pods = localSource(context);
  if (pods === null) return null;
  return context.detector.kind === 'cidr' ? `! ${pods} ${destination} ${rest}` : `${destination} ! ${pods} ${rest}`;
}

interface Balancing {
  readonly chain: string;
  readonly endpoints: readonly Endpoint[];
  /** The endpoints on which clients stay, if the Service has session affinity. */
  readonly sticky: readonly Endpoint[];
  /** The comment of a rule, with a blank behind it. The rules that pick an endpoint are counted; those for returning clients are not. */
  readonly commentOf: (endpoint: Endpoint, index: number | null) => string;
}

/** The rules that select an endpoint: first for returning clients, then one for each endpoint with its share. */
export function writeBalancing({item, context}: Pick<ServiceRulesPlan, 'item' | 'context'>, write: RuleWriter, balancing: Balancing): void {
  const {chain, endpoints, sticky, commentOf} = balancing;
  const {port, endpointChain} = item;
  if (port.affinitySeconds !== null) {
    for (const endpoint of sticky) {
      const target = endpointChain(endpoint);
      write('nat', chain, `${commentOf(endpoint, null)}${affinityMatch(port.affinitySeconds, target, context)} -j ${target}`);
    }
  }
  const decimals = decimalsOfProbability(context.version);
  for (const [index, endpoint] of endpoints.entries()) {
    const left = endpoints.length - index;
    const statistic = left > 1 ? `-m statistic --mode random --probability ${probability(left, decimals)} ` : '';
    write('nat', chain, `${commentOf(endpoint, index)}${statistic}-j ${endpointChain(endpoint)}`);
  }
}

function affinityMatch(seconds: number, name: string, {family}: NodeContext): string {
  return `-m recent --rcheck --seconds ${seconds} --reap --name ${name} --mask ${recentMask(family)} --rsource`;
}

/**
 * KUBE-SEP of each endpoint: the hairpin mark, then the DNAT. These are nearly all rules of a large cluster, so their common parts are
 * built once.
 */
export function writeEndpointRules(
  {item, context, text}: {readonly item: PortOnNode; readonly context: NodeContext; readonly text: ProtocolText},
  write: RuleWriter,
): void {
  const {port, large, endpoints, endpointChain} = item;
  const named = large ? '' : `${comment(port.servicePortName)} `;
  const respelled = keepsAddressSpelling(context.version) && context.family === 'IPv6';
  const mark = `${text.host} ${named}-j KUBE-MARK-MASQ`;
  const match = `-p ${text.protocol} ${named}`;
  const rewrite = `-m ${text.protocol} -j DNAT --to-destination `;
  const all = match + rewrite;
  for (const endpoint of endpoints.reachable) {
    const chain = endpointChain(endpoint);
    const address = respelled ? (canonicalAddress(endpoint.address) ?? endpoint.address) : endpoint.address;
    const destination = respelled ? `[${address}]:${endpoint.port}` : endpoint.hostPort;
    write('nat', chain, `-s ${address}${mark}`);
    if (port.affinitySeconds === null) write('nat', chain, all + destination);
    else
      write(
        'nat',
        chain,
        `${match}-m recent --set --name ${chain} --mask ${recentMask(context.family)} --rsource ${rewrite}${destination}`,
      );
  }
}
