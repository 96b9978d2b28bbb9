import {bitsOf} from '../../model/address.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {establishedRules} from '../iptables/base-rules.ts';
import {comment, reject, type RuleWriter} from '../iptables/rule-text.ts';
import {localSource, ownAddressesInRanges} from '../iptables/service-rules.ts';
import type {IpvsContext} from './ipvs-context.ts';
import * as ipvsSets from './ipvs-sets.ts';

interface BaseRuleInput {
  readonly context: IpvsContext;
  /** Whether some Service adds an element to a set: many rules are only written then. */
  readonly wants: (role: ipvsSets.SetRole) => boolean;
}

/**
 * The iptables rules around IPVS. They contain no Services: sets select the packets. Follows `createAndLinkKubeChain` and
 * `writeIptablesRules`.
 */
export function writeIpvsBaseRules(input: BaseRuleInput, write: RuleWriter): void {
  writeJumps(input, write);
  writeServices(input, write);
  writeLoadBalancer(input, write);
  writeNodePorts(input, write);
  writePostrouting(input, write);
  writeForward(input, write);
  if (!ipvsSets.firewallsInNat(input.context.version)) writeFirewall(input, 'filter', write);
  if (ipvsSets.hasIpvsFilter(input.context.version)) writeIpvsFilter(input, write);
}

/** The chains that exist whether they contain rules or not: `[table, chain]`. */
export function ipvsBaseRuleChains({version}: IpvsContext): readonly (readonly [table: string, chain: string])[] {
  return [
    ['nat', 'KUBE-SERVICES'],
    ['nat', 'KUBE-POSTROUTING'],
    ['nat', 'KUBE-NODE-PORT'],
    ['nat', 'KUBE-LOAD-BALANCER'],
    ['nat', 'KUBE-MARK-MASQ'],
    ...(ipvsSets.firewallsInNat(version)
      ? ([['nat', 'KUBE-FIREWALL']] as const)
      : ([
          ['filter', 'KUBE-PROXY-FIREWALL'],
          ['filter', 'KUBE-SOURCE-RANGES-FIREWALL'],
        ] as const)),
    ['filter', 'KUBE-FORWARD'],
    ['filter', 'KUBE-NODE-PORT'],
    ...(ipvsSets.hasIpvsFilter(version) ? [['filter', 'KUBE-IPVS-FILTER'] as const] : []),
    ...(ipvsSets.hasIpvsOutFilter(version) ? [['filter', 'KUBE-IPVS-OUT-FILTER'] as const] : []),
  ];
}

/** Drops packets from the node to load-balancer addresses whose source ranges exclude it. The only chain with rules of Services. */
export function outFilterRules(port: ServicePort, context: IpvsContext): readonly string[] {
  if (!ipvsSets.hasIpvsOutFilter(context.version) || port.sourceRanges.length === 0 || ownAddressesInRanges(port, context).length > 0)
    return [];
  const length = bitsOf(context.family);
  const number = protocolNumbers[port.protocol];
  return [...new Set(port.loadBalancerVIPs)].map(
    address => `-s ${address}/${length} -m ipvs --vproto ${number} --vaddr ${address} --vport ${port.port} -j DROP`,
  );
}

const protocolNumbers = {TCP: 6, UDP: 17, SCTP: 132} as const;

/** In the order of a node where no other program writes rules. */
function writeJumps({context: {version}}: BaseRuleInput, write: RuleWriter): void {
  const jump = (table: 'nat' | 'filter', chain: string, text: string, to: string): void => write(table, chain, `${comment(text)} -j ${to}`);
  for (const chain of ['PREROUTING', 'OUTPUT']) jump('nat', chain, 'kubernetes service portals', 'KUBE-SERVICES');
  jump('nat', 'POSTROUTING', 'kubernetes postrouting rules', 'KUBE-POSTROUTING');
  const access = 'kubernetes ipvs access filter';
  const firewall = 'kube-proxy firewall rules';
  const filters = !ipvsSets.firewallsInNat(version);
  if (ipvsSets.hasIpvsFilter(version)) jump('filter', 'INPUT', access, 'KUBE-IPVS-FILTER');
  if (filters) jump('filter', 'INPUT', firewall, 'KUBE-PROXY-FIREWALL');
  jump('filter', 'INPUT', 'kubernetes health check rules', 'KUBE-NODE-PORT');
  if (filters) jump('filter', 'FORWARD', firewall, 'KUBE-PROXY-FIREWALL');
  jump('filter', 'FORWARD', 'kubernetes forwarding rules', 'KUBE-FORWARD');
  if (ipvsSets.hasIpvsOutFilter(version)) jump('filter', 'OUTPUT', access, 'KUBE-IPVS-OUT-FILTER');
}

function inSet({context}: BaseRuleInput, role: ipvsSets.SetRole, directions: string): string {
  return `-m set --match-set ${ipvsSets.setName(role, context.family)} ${directions}`;
}

function writeServices(input: BaseRuleInput, write: RuleWriter): void {
  const {context, wants} = input;
  const rule = (text: string): void => write('nat', 'KUBE-SERVICES', text);
  if (ipvsSets.skipsLoopbackSources(context.version)) rule(`-s ${context.family === 'IPv4' ? '127.0.0.0/8' : '::1/128'} -j RETURN`);
  if (wants('KUBE-LOAD-BALANCER'))
    rule(`${comment('Kubernetes service lb portal')} ${inSet(input, 'KUBE-LOAD-BALANCER', 'dst,dst')} -j KUBE-LOAD-BALANCER`);
  if (wants('KUBE-CLUSTER-IP')) rule(clusterIPMasquerade(input));
  if (wants('KUBE-EXTERNAL-IP')) {
    const text = comment('Kubernetes service external ip + port for masquerade and filter purpose');
    const match = `${text} ${inSet(input, 'KUBE-EXTERNAL-IP', 'dst,dst')}`;
    rule(`${match} -j KUBE-MARK-MASQ`);
    writeExternal(match, rule);
  }
  if (wants('KUBE-EXTERNAL-IP-LOCAL')) {
    const text = comment('Kubernetes service external ip + port with externalTrafficPolicy=local');
    writeExternal(`${text} ${inSet(input, 'KUBE-EXTERNAL-IP-LOCAL', 'dst,dst')}`, rule);
  }
  rule('-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT');
  if (wants('KUBE-CLUSTER-IP')) rule(`${inSet(input, 'KUBE-CLUSTER-IP', 'dst,dst')} -j ACCEPT`);
  if (wants('KUBE-LOAD-BALANCER')) rule(`${inSet(input, 'KUBE-LOAD-BALANCER', 'dst,dst')} -j ACCEPT`);
}

/** Accepts packets to external IPs from a bridge port or from the node itself. */
function writeExternal(match: string, rule: (text: string) => void): void {
  rule(`${match} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT`);
  rule(`${match} -m addrtype --dst-type LOCAL -j ACCEPT`);
}

/** Without a way to detect pods, packets *from* the address of a Service are masqueraded. */
function clusterIPMasquerade(input: BaseRuleInput): string {
  const {masqueradeAll, detector} = input.context;
  const pods = masqueradeAll ? null : localSource(input.context);
  const directions = masqueradeAll || detector.kind !== 'none' ? 'dst,dst' : 'src,dst';
  const text = comment('Kubernetes service cluster ip + port for masquerade purpose');
  return `${pods === null ? '' : `! ${pods} `}${text} ${inSet(input, 'KUBE-CLUSTER-IP', directions)} -j KUBE-MARK-MASQ`;
}

function writeLoadBalancer(input: BaseRuleInput, write: RuleWriter): void {
  if (ipvsSets.firewallsInNat(input.context.version)) writeFirewall(input, 'nat', write);
  if (input.wants('KUBE-LOAD-BALANCER-LOCAL')) {
    const text = comment('Kubernetes service load balancer ip + port with externalTrafficPolicy=local');
    write('nat', 'KUBE-LOAD-BALANCER', `${text} ${inSet(input, 'KUBE-LOAD-BALANCER-LOCAL', 'dst,dst')} -j RETURN`);
  }
  write('nat', 'KUBE-LOAD-BALANCER', '-j KUBE-MARK-MASQ');
}

/** iptables-save escapes the quotes in the comments of SCTP. */
const nodePortSets = [
  {protocol: 'TCP', suffix: 'TCP', directions: 'dst', kind: ''},
  {protocol: 'UDP', suffix: 'UDP', directions: 'dst', kind: ''},
  {protocol: 'SCTP', suffix: 'SCTP-HASH', directions: 'dst,dst', kind: " with type \\'hash ip:port\\'"},
] as const;

function writeNodePorts(input: BaseRuleInput, write: RuleWriter): void {
  for (const {protocol, suffix, directions, kind} of nodePortSets) {
    const rule = (role: ipvsSets.SetRole, purpose: string, target: string): void => {
      const text = comment(`Kubernetes nodeport ${protocol} port ${purpose}${kind}`);
      if (input.wants(role))
        write('nat', 'KUBE-NODE-PORT', `-p ${protocol.toLowerCase()} ${text} ${inSet(input, role, directions)} -j ${target}`);
    };
    const marksFirst = protocol === 'SCTP' && ipvsSets.marksSctpFirst(input.context.version);
    if (marksFirst) rule(`KUBE-NODE-PORT-${suffix}`, 'for masquerade purpose', 'KUBE-MARK-MASQ');
    rule(`KUBE-NODE-PORT-LOCAL-${suffix}`, 'with externalTrafficPolicy=local', 'RETURN');
    if (!marksFirst) rule(`KUBE-NODE-PORT-${suffix}`, 'for masquerade purpose', 'KUBE-MARK-MASQ');
  }
  const text = comment('Kubernetes health check node port');
  write('filter', 'KUBE-NODE-PORT', `${text} ${inSet(input, 'KUBE-HEALTH-CHECK-NODE-PORT', 'dst')} -j ACCEPT`);
}

function writePostrouting(input: BaseRuleInput, write: RuleWriter): void {
  const {mark} = input.context;
  const rule = (text: string): void => write('nat', 'KUBE-POSTROUTING', text);
  if (input.wants('KUBE-LOOP-BACK')) {
    const text = comment('Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose');
    rule(`${text} ${inSet(input, 'KUBE-LOOP-BACK', 'dst,dst,src')} -j MASQUERADE`);
  }
  rule(`-m mark ! --mark ${mark}/${mark} -j RETURN`);
  rule(`-j MARK --set-xmark ${mark}/0x0`);
  rule(`${comment('kubernetes service traffic requiring SNAT')} -j MASQUERADE --random-fully`);
  write('nat', 'KUBE-MARK-MASQ', `-j MARK --set-xmark ${mark}/${mark}`);
}

function writeForward({context}: BaseRuleInput, write: RuleWriter): void {
  write('filter', 'KUBE-FORWARD', `${comment('kubernetes forwarding rules')} -m mark --mark ${context.mark}/${context.mark} -j ACCEPT`);
  for (const rule of establishedRules(context)) write('filter', 'KUBE-FORWARD', rule);
}

/** Source ranges: packets to a load-balancer address with ranges must come from one of them. */
function writeFirewall(input: BaseRuleInput, table: 'nat' | 'filter', write: RuleWriter): void {
  const [from, chain, end] =
    table === 'nat'
      ? ['KUBE-LOAD-BALANCER', 'KUBE-FIREWALL', 'KUBE-MARK-DROP']
      : ['KUBE-PROXY-FIREWALL', 'KUBE-SOURCE-RANGES-FIREWALL', 'DROP'];
  if (input.wants('KUBE-LOAD-BALANCER-FW')) {
    const text = comment('Kubernetes service load balancer ip + port for load balancer with sourceRange');
    write(table, from, `${text} ${inSet(input, 'KUBE-LOAD-BALANCER-FW', 'dst,dst')} -j ${chain}`);
  }
  for (const [role, what] of [
    ['KUBE-LOAD-BALANCER-SOURCE-CIDR', 'cidr'],
    ['KUBE-LOAD-BALANCER-SOURCE-IP', 'IP'],
  ] as const) {
    const text = comment(`Kubernetes service load balancer ip + port + source ${what} for packet filter purpose`);
    if (input.wants(role)) write(table, chain, `${text} ${inSet(input, role, 'dst,dst,src')} -j RETURN`);
  }
  write(table, chain, `-j ${end}`);
}

/** The node's own ports must not be reachable through the addresses of Services. */
function writeIpvsFilter(input: BaseRuleInput, write: RuleWriter): void {
  const {family, version} = input.context;
  const rule = (text: string): void => write('filter', 'KUBE-IPVS-FILTER', text);
  for (const role of ['KUBE-LOAD-BALANCER', 'KUBE-CLUSTER-IP', 'KUBE-EXTERNAL-IP'] as const)
    rule(`${inSet(input, role, 'dst,dst')} -j RETURN`);
  if (ipvsSets.admitsLocalExternalIPs(version)) rule(`${inSet(input, 'KUBE-EXTERNAL-IP-LOCAL', 'dst,dst')} -j RETURN`);
  if (ipvsSets.admitsHealthChecks(version)) rule(`${inSet(input, 'KUBE-HEALTH-CHECK-NODE-PORT', 'dst')} -j RETURN`);
  rule(`-m conntrack --ctstate NEW ${inSet(input, 'KUBE-IPVS-IPS', 'dst')} ${reject(family)}`);
}
