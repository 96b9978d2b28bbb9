import type {CategorizedEndpoints, Endpoint} from '../../model/endpoint.ts';
import type {OwnerRules, SharedRule} from '../../model/ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {ClusterView} from '../cluster/cluster-view.ts';
import {countsUnreadyEndpoints, hasExternalChains} from '../cluster/proxy-versions.ts';
import {heldIn, once} from '../../model/once.ts';
import type {Family} from '../../model/address.ts';
import {type NodeContext, nodePortDestinations} from '../node-context.ts';
import {chainName} from './chain-names.ts';
import * as versions from './iptables-versions.ts';
import {comment, protocolText, type ProtocolText, reject, type RuleWriter} from './rule-text.ts';
import {
  addressRule,
  clusterIPMasquerade,
  localSource,
  ownAddressesInRanges,
  type PortOnNode,
  sourceText,
  writeBalancing,
  writeEndpointRules,
  writeHealthCheck,
  writeNodePortVerdict,
  writeServiceRules,
  writesNodePort,
} from './service-rules.ts';

/**
 * A function that renders the rules of Service ports on one node. Most are the same on every node: from the second node of a run on, they
 * are kept, and the next node with the same settings gets them without rendering. The same object means the same rules: what was found
 * with it on one node may be compared with the next.
 */
export function portRules(view: ClusterView, context: NodeContext): (item: PortOnNode) => OwnerRules {
  const kept = keptRules(view, context);
  const node = context.facts.name;
  return item => {
    if (kept === null || !hasFewEndpoints(item)) return render(item, context);
    const known = kept.get(item.port);
    const allowed = ownAddressesInRanges(item.port, context);
    if (
      known !== undefined &&
      known.item.large === item.large &&
      known.allowed.length === allowed.length &&
      isSameEndpoints(known.item.endpoints, item.endpoints)
    ) {
      known.node = node;
      return known.rules;
    }
    // The first endpoints of a node are those that it should have. Others are an assumption about it, and do not replace them.
    if (known?.node === node) return render(item, context);
    const {shared, own} = render(item, context);
    const rules = {shared: shared.map(rule => ({...rule, line: `-A ${rule.chain} ${rule.text}`})), own, isKept: true as const};
    kept.set(item.port, {item, rules, node, allowed});
    return rules;
  };
}

interface KeptRules {
  readonly item: PortOnNode;
  readonly rules: OwnerRules;
  /** All of the node's own addresses that source ranges of the Service allow, or none: they are those of the load balancer. */
  readonly allowed: readonly string[];
  /** The last node that they were for. */
  node: string;
}

/** Of the last settings of each family only: if pods are recognized by the node's own CIDR, no two nodes have the same. */
interface KeptOfView {
  readonly firstNode: string;
  readonly byFamily: Map<Family, {readonly settings: string; readonly rules: Map<ServicePort, KeptRules>}>;
}

const keptOfViews = new WeakMap<ClusterView, KeptOfView>();

/**
 * Where the rendered rules of Service ports are kept for the next nodes with the same settings: those of this node may be used with the same
 * endpoints (`isSameEndpoints`). Null for the first node, which may be the only one.
 */
function keptRules(view: ClusterView, context: NodeContext): Map<ServicePort, KeptRules> | null {
  const ofView = heldIn(keptOfViews, view, () => ({firstNode: context.facts.name, byFamily: new Map()}));
  if (ofView.firstNode === context.facts.name) return null;
  const settings = settingsOf(context);
  const known = ofView.byFamily.get(context.family);
  if (known?.settings === settings) return known.rules;
  const rules = new Map<ServicePort, KeptRules>();
  ofView.byFamily.set(context.family, {settings, rules});
  return rules;
}

/** All that the rules of Service ports depend on, but for the node's own address, which the sources that a Service allows may hold. */
export const settingsOf = once((context: NodeContext): string => {
  const {facts: _, nodeIP: __, nodePortCIDRs: ___, ...settings} = context;
  return JSON.stringify({...settings, hasNodePorts: nodePortDestinations(context)?.length !== 0});
});

/** The texts of many endpoints would take much memory. */
function hasFewEndpoints({endpoints}: PortOnNode): boolean {
  return endpoints.reachable.length <= maxKeptEndpoints;
}

const maxKeptEndpoints = 64;

function isSameEndpoints(a: CategorizedEndpoints, b: CategorizedEndpoints): boolean {
  if (a === b) return true;
  return a.hasAny === b.hasAny && isSameList(a.cluster, b.cluster) && isSameList(a.local, b.local) && isSameList(a.reachable, b.reachable);
}

function isSameList(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  return a === b || (a.length === b.length && a.every((endpoint, index) => endpoint === b[index]));
}

function render(item: PortOnNode, context: NodeContext): OwnerRules {
  const shared: SharedRule[] = [];
  const own = new Map<string, string>();
  let current = '';
  let start = '';
  let text = '';
  const flush = (): void => {
    if (text !== '') own.set(current, own.has(current) ? `${own.get(current)}\n${text}` : text);
  };
  const write = (table: string, chain: string, rule: string): void => {
    if (chain === current) {
      text += `\n${start}${rule}`;
    } else if (sharedChains.has(chain)) {
      shared.push({table, chain, text: rule});
    } else {
      flush();
      current = chain;
      start = `-A ${chain} `;
      text = start + rule;
    }
  };
  if (hasExternalChains(context.version)) writeServiceRules(item, context, write);
  else writeServiceRulesBefore124(item, context, write);
  flush();
  return {shared, own};
}

const sharedChains = new Set(['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-EXTERNAL-SERVICES', 'KUBE-PROXY-FIREWALL']);

/**
 * All rules of one Service port, kube-proxy 1.5 to 1.23: KUBE-XLB in place of KUBE-EXT and KUBE-SVL, a KUBE-FW chain for every
 * load-balancer address, and KUBE-MARK-DROP for packets to drop. Follows `syncProxyRules` of those versions.
 */
function writeServiceRulesBefore124(item: PortOnNode, context: NodeContext, write: RuleWriter): void {
  const {port, endpoints} = item;
  const plan: PlanBefore124 = {
    item,
    context,
    text: protocolText(port.family, port.protocol),
    external: chainName(port.externalPolicyLocal ? 'XLB' : 'SVC', port.hash),
  };
  if (port.healthCheckNodePort !== 0 && versions.acceptsHealthChecks(context.version)) writeHealthCheck(plan, write);
  if (!endpoints.hasAny) writeRejects(plan, write);
  if (!endpoints.hasAny && versions.leavesOutEmptyServices(context.version)) return;
  writeEntries(plan, write);
  writeServiceChain(plan, write);
  writeFirewallChain(plan, write);
  if (port.externalPolicyLocal && endpoints.hasAny) writeLocalChain(plan, write);
  writeEndpointRules(plan, write);
}

/** The rules that reject packets to a Service port without endpoints. */
function writeRejects(plan: PlanBefore124, write: RuleWriter): void {
  const {item, context} = plan;
  const {port} = item;
  const said = `${port.servicePortName} has no endpoints`;
  const target = reject(port.family);
  const rule = (address: string): string => addressRule(plan, address, said, target);
  write('filter', 'KUBE-SERVICES', rule(port.clusterIP));
  if (!versions.refusesExternalEntries(context.version)) return;
  for (const address of port.externalIPs) write('filter', 'KUBE-EXTERNAL-SERVICES', rule(address));
  const place = versions.refusesLoadBalancerIn(context.version);
  if (place !== null) for (const address of port.loadBalancerVIPs) write('filter', place, rule(address));
  if (writesNodePort(item, context)) writeNodePortVerdict(plan, said, target, write);
}

/** The rules in shared chains that match packets to a Service port. */
function writeEntries(plan: PlanBefore124, write: RuleWriter): void {
  const {port} = plan.item;
  if (!versions.masqueradesInServiceChain(plan.context.version)) {
    for (const rule of clusterIPMasquerades(plan)) write('nat', 'KUBE-SERVICES', rule);
  }
  const name = port.servicePortName;
  write('nat', 'KUBE-SERVICES', addressRule(plan, port.clusterIP, `${name} cluster IP`, `-j ${chainName('SVC', port.hash)}`));
  for (const address of port.externalIPs) writeExternalIP(plan, address, write);
  for (const address of port.loadBalancerVIPs)
    write('nat', 'KUBE-SERVICES', addressRule(plan, address, `${name} loadbalancer IP`, `-j ${chainName('FW', port.hash)}`));
  if (writesNodePort(plan.item, plan.context)) writeNodePort(plan, write);
}

/** At most one rule. 1.5 writes two: one for masqueradeAll and one for the pod network. */
function clusterIPMasquerades({item, context}: PlanBefore124): readonly string[] {
  const rules = [clusterIPMasquerade(item, context)];
  if (context.masqueradeAll && versions.masqueradesTwice(context.version))
    rules.push(clusterIPMasquerade(item, {...context, masqueradeAll: false}));
  return rules.filter(rule => rule !== null);
}

function writeNodePort({item: {port}, context: {version}, text: {protocol}, external}: PlanBefore124, write: RuleWriter): void {
  const nodePort = `-p ${protocol} ${comment(port.servicePortName)} -m ${protocol} --dport ${port.nodePort}`;
  const loopback = port.family === 'IPv4' ? '127.0.0.0/8' : '::1/128';
  if (port.externalPolicyLocal) {
    if (versions.keepsAffinityUnderLocalPolicy(version)) write('nat', 'KUBE-NODEPORTS', `-s ${loopback} ${nodePort} -j KUBE-MARK-MASQ`);
  } else if (!versions.masqueradesInServiceChain(version)) {
    write('nat', 'KUBE-NODEPORTS', `${nodePort} -j KUBE-MARK-MASQ`);
  }
  write('nat', 'KUBE-NODEPORTS', `${nodePort} -j ${external}`);
}

/** The rules of one external IP in KUBE-SERVICES. */
function writeExternalIP(plan: PlanBefore124, address: string, write: RuleWriter): void {
  const {version} = plan.context;
  const target = isLocal(plan) ? plan.external : chainName('SVC', plan.item.port.hash);
  const rule = externalIPRule(plan, address);
  if (versions.excludesBridgedExternalIPs(version)) {
    if (!isLocal(plan)) write('nat', 'KUBE-SERVICES', `${rule} -j KUBE-MARK-MASQ`);
    write('nat', 'KUBE-SERVICES', `${rule} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ${target}`);
    write('nat', 'KUBE-SERVICES', `${rule} -m addrtype --dst-type LOCAL -j ${target}`);
    return;
  }
  if (!versions.masqueradesInServiceChain(version) && !isLocal(plan)) write('nat', 'KUBE-SERVICES', externalIPMasquerade(plan, address));
  write('nat', 'KUBE-SERVICES', `${rule} -j ${target}`);
}

/** Packets to an external IP that do not come from this node's pods are masqueraded; without a detector all are. */
function externalIPMasquerade(plan: PlanBefore124, address: string): string {
  const pods = localSource(plan.context);
  if (pods === null) return `${externalIPRule(plan, address)} -j KUBE-MARK-MASQ`;
  const [source, link] = plan.context.detector.kind === 'cidr' ? [`! ${pods} `, ''] : ['', ` ! ${pods}`];
  return `${externalIPRule(plan, address, {source, link})} -j KUBE-MARK-MASQ`;
}

function externalIPRule({item: {port}, text: {protocol, host}}: PlanBefore124, address: string, from = {source: '', link: ''}): string {
  return `${from.source}-d ${address}${host}${from.link} -p ${protocol} ${comment(`${port.servicePortName} external IP`)} -m ${protocol} --dport ${port.port}`;
}

function isLocal({item: {port}, context: {version, gates}}: PlanBefore124): boolean {
  return port.externalPolicyLocal && versions.appliesPolicyToExternalIPs(version, gates);
}

/** KUBE-SVC: balances over all endpoints; in 1.22 and 1.23 after the masquerade rules. */
function writeServiceChain(plan: PlanBefore124, write: RuleWriter): void {
  const {item, context} = plan;
  const {port, endpoints, large} = item;
  const chain = chainName('SVC', port.hash);
  if (versions.masqueradesInServiceChain(context.version)) for (const rule of masquerades(plan)) write('nat', chain, rule);
  const named = large ? '' : `${comment(port.servicePortName)} `;
  const sticky = countsUnreadyEndpoints(context.version) ? endpoints.reachable : endpoints.cluster;
  writeBalancing(plan, write, {chain, endpoints: endpoints.cluster, sticky, commentOf: () => named});
}

function masquerades(plan: PlanBefore124): readonly string[] {
  const {item, context, text} = plan;
  const {port} = item;
  const inside = clusterIPMasquerade(item, context);
  const rules = inside === null ? [] : [inside];
  if (port.externalPolicyLocal) return rules;
  rules.push(...port.externalIPs.map(address => externalIPMasquerade(plan, address)));
  if (writesNodePort(item, context))
    rules.push(`-p ${text.protocol} ${comment(port.servicePortName)} -m ${text.protocol} --dport ${port.nodePort} -j KUBE-MARK-MASQ`);
  return rules;
}

/** KUBE-FW: for every load-balancer address its source ranges, then the drop mark. All addresses share one chain. */
function writeFirewallChain(plan: PlanBefore124, write: RuleWriter): void {
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

/** KUBE-XLB: pods and the node itself use all endpoints, other clients only those on this node. */
function writeLocalChain(plan: PlanBefore124, write: RuleWriter): void {
  const {item, context} = plan;
  const {port, endpoints} = item;
  const chain = chainName('XLB', port.hash);
  const cluster = chainName('SVC', port.hash);
  const name = port.servicePortName;
  const pods = localSource(context);
  if (pods !== null)
    write('nat', chain, `${pods} ${comment('Redirect pods trying to reach external loadbalancer VIP to clusterIP')} -j ${cluster}`);
  if (versions.cutsShortLocalTraffic(context.version)) {
    write('nat', chain, `${comment(`masquerade LOCAL traffic for ${name} LB IP`)} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`);
    write('nat', chain, `${comment(`route LOCAL traffic for ${name} LB IP to service chain`)} -m addrtype --src-type LOCAL -j ${cluster}`);
  }
  if (endpoints.local.length === 0) return write('nat', chain, `${comment(`${name} has no local endpoints`)} -j KUBE-MARK-DROP`);
  const numbered = versions.numbersBalancingRules(context.version);
  const named = item.large && !numbered ? '' : `${comment(name)} `;
  const commentOf = (_: Endpoint, index: number | null): string =>
    numbered && index !== null ? `${comment(`Balancing rule ${index} for ${name}`)} ` : named;
  const sticky = versions.keepsAffinityUnderLocalPolicy(context.version) ? endpoints.local : [];
  writeBalancing(plan, write, {chain, endpoints: endpoints.local, sticky, commentOf});
}

/** The input for the rules of one Service port, up to kube-proxy 1.23. */
interface PlanBefore124 {
  readonly item: PortOnNode;
  readonly context: NodeContext;
  readonly text: ProtocolText;
  /** The chain for external traffic: KUBE-XLB under the Local policy, otherwise KUBE-SVC. */
  readonly external: string;
}
