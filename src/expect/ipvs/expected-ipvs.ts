import {parseAddress, parseCidr, type Protocol, joinHostPort} from '../../model/address.ts';
import type {Endpoint, ServedPort} from '../../model/endpoint.ts';
import {pushTo} from '../../model/lists.ts';
import type {Entry, ServicePort} from '../../model/service-port.ts';
import {type RealServer, serverKey, type VirtualServer} from '../../model/virtual-server.ts';
import {memberText} from '../../parse/ipvs/ipset-save.ts';
import {writesExternalIPs} from '../cluster/proxy-versions.ts';
import {nodeTopology, type PortsInput, portsOnNode} from '../cluster/served-port.ts';
import {ownAddressesInRanges} from '../iptables/service-rules.ts';
import type {Hypothesis} from '../node-context.ts';
import {ipvsBaseRuleChains, outFilterRules, writeIpvsBaseRules} from './ipvs-base-rules.ts';
import {type IpvsContext, ipvsContext} from './ipvs-context.ts';
import {hashesPorts, type SetRole, setRoles, sparesOtherInterfaces} from './ipvs-sets.ts';

/** What kube-proxy should have configured for one family on one node in IPVS mode. */
export interface ExpectedIpvs {
  readonly context: IpvsContext;
  /** The node name by which kube-proxy finds local endpoints. */
  readonly nodeName: string;
  readonly ports: readonly ServedPort[];
  /** By key. If several Services claim one address and port, the last one that kube-proxy processes wins: it can be any of them. */
  readonly servers: ReadonlyMap<string, readonly ExpectedServer[]>;
  readonly members: ReadonlyMap<SetRole, ExpectedMembers>;
  /** The addresses of kube-ipvs0, with the Service ports that they belong to. */
  readonly bound: ReadonlyMap<string, readonly ServedPort[]>;
  /** Base rules by `table/chain`, including empty chains. */
  readonly baseRules: ReadonlyMap<string, readonly string[]>;
  /** The rules of a Service port in KUBE-IPVS-OUT-FILTER. */
  outFilter(owner: ServedPort): readonly string[];
}

/** `facts` contain the addresses of all interfaces except kube-ipvs0, `bound` those of kube-ipvs0. */
export function expectIpvs(input: PortsInput & {readonly bound: readonly string[]}, hypothesis: Hypothesis = {}): ExpectedIpvs {
  const {config, facts, family} = input;
  const context = ipvsContext(family, config, facts, input.bound);
  const topology = nodeTopology(input, hypothesis);
  const ports = portsOnNode(input, topology, hypothesis.picks);
  const {nodeName} = topology;
  const members = expectMembers({ports, context, nodeName});
  return {
    context,
    nodeName,
    ports,
    members,
    servers: gather(ports, owner => expectServers(owner, context).map(item => [serverKey(item.server), item])),
    bound: gather(ports, owner => boundAddressesOf(owner.port, context).map(address => [address, owner])),
    baseRules: baseRuleTexts(context, role => (members.get(role)?.size ?? 0) > 0),
    outFilter: ({port}) => outFilterRules(port, context),
  };
}

function gather<T>(
  ports: readonly ServedPort[],
  itemsOf: (owner: ServedPort) => readonly (readonly [key: string, item: T])[],
): ReadonlyMap<string, readonly T[]> {
  const collected = new Map<string, T[]>();
  for (const owner of ports) {
    for (const [key, item] of itemsOf(owner)) pushTo(collected, key, item);
  }
  return collected;
}

function baseRuleTexts(context: IpvsContext, wants: (role: SetRole) => boolean): ReadonlyMap<string, readonly string[]> {
  const baseRules = new Map<string, string[]>(ipvsBaseRuleChains(context).map(([table, chain]) => [`${table}/${chain}`, []]));
  writeIpvsBaseRules({context, wants}, (table, chain, rule) => {
    pushTo(baseRules, `${table}/${chain}`, rule);
  });
  return baseRules;
}

/** The expected elements of a set, in the spelling of `ipset save`, each with the Service ports that it belongs to. */
type ExpectedMembers = ReadonlyMap<string, readonly ServedPort[]>;

interface MemberInput {
  readonly ports: readonly ServedPort[];
  readonly context: IpvsContext;
  /** The node name by which kube-proxy finds local endpoints. */
  readonly nodeName: string;
}

/** The content of all sets of one family. Follows `syncProxyRules`. */
function expectMembers({ports, context, nodeName}: MemberInput): ReadonlyMap<SetRole, ExpectedMembers> {
  const sets = new Map<SetRole, Map<string, ServedPort[]>>(setRoles(context.version).map(role => [role, new Map()]));
  for (const owner of ports) {
    writeMembers(owner, {context, nodeName}, (role, ...element) => {
      const members = sets.get(role);
      const text = memberText(element);
      const owners = members?.get(text);
      if (owners === undefined) members?.set(text, [owner]);
      else if (owners.at(-1) !== owner) owners.push(owner);
    });
  }
  return sets;
}

type Write = (role: SetRole, ...element: readonly string[]) => void;

function writeMembers(owner: ServedPort, {context, nodeName}: Omit<MemberInput, 'ports'>, write: Write): void {
  const {port} = owner;
  const protocol = port.protocol.toLowerCase();
  const at = `${protocol}:${port.port}`;
  for (const endpoint of owner.all) {
    // Ready or not: an endpoint of this node may connect to itself as long as it has connections.
    if (endpoint.nodeName !== nodeName) continue;
    const address = parseAddress(endpoint.address)?.text ?? endpoint.address;
    write('KUBE-LOOP-BACK', address, `${protocol}:${endpoint.port}`, address);
  }
  write('KUBE-CLUSTER-IP', port.clusterIP, at);
  for (const address of externalIPsOf(port, context))
    write(port.externalPolicyLocal ? 'KUBE-EXTERNAL-IP-LOCAL' : 'KUBE-EXTERNAL-IP', address, at);
  for (const address of port.loadBalancerVIPs) writeBalancer(port, {context, address, at}, write);
  for (const address of boundAddressesOf(port, context)) write('KUBE-IPVS-IPS', address);
  if (port.nodePort !== 0) {
    // Without an address for its node port kube-proxy skips the rest of a Service port.
    if (context.nodeAddresses.length === 0) return;
    writeNodePort(port, context, write);
  }
  if (port.healthCheckNodePort !== 0) write('KUBE-HEALTH-CHECK-NODE-PORT', String(port.healthCheckNodePort));
}

function writeBalancer(
  port: ServicePort,
  {context, address, at}: {readonly context: IpvsContext; readonly address: string; readonly at: string},
  write: Write,
): void {
  write('KUBE-LOAD-BALANCER', address, at);
  if (port.externalPolicyLocal) write('KUBE-LOAD-BALANCER-LOCAL', address, at);
  if (port.sourceRanges.length === 0) return;
  write('KUBE-LOAD-BALANCER-FW', address, at);
  // The kernel does not accept a network with prefix 0 in such a set.
  for (const range of port.sourceRanges) if (parseCidr(range)?.prefix !== 0) write('KUBE-LOAD-BALANCER-SOURCE-CIDR', address, at, range);
  if (ownAddressesInRanges(port, context).length > 0) write('KUBE-LOAD-BALANCER-SOURCE-IP', address, at, address);
}

function writeNodePort(port: ServicePort, {nodeAddresses}: IpvsContext, write: Write): void {
  const number = String(port.nodePort);
  if (port.protocol === 'SCTP') {
    for (const address of nodeAddresses) {
      write('KUBE-NODE-PORT-SCTP-HASH', address, `sctp:${number}`);
      if (port.externalPolicyLocal) write('KUBE-NODE-PORT-LOCAL-SCTP-HASH', address, `sctp:${number}`);
    }
    return;
  }
  write(`KUBE-NODE-PORT-${port.protocol}`, number);
  if (port.externalPolicyLocal) write(`KUBE-NODE-PORT-LOCAL-${port.protocol}`, number);
}

/** A virtual server that kube-proxy should have created, and the Service ports that it belongs to. */
export interface ExpectedServer {
  readonly server: VirtualServer;
  readonly owner: ServedPort;
  readonly entry: Entry;
}

/**
 * The virtual servers of one Service port, one for each address on which it answers. Follows `syncProxyRules`, `syncService` and
 * `syncEndpoint`.
 */
function expectServers(owner: ServedPort, context: IpvsContext): readonly ExpectedServer[] {
  const {port} = owner;
  const external = preferLocal(port.externalPolicyLocal, owner);
  const make = (entry: Entry, address: string, reals: readonly Endpoint[]): ExpectedServer => ({
    owner,
    entry,
    server: virtualServer(port, {address, port: entry.port, reals, context}),
  });
  const nodePort: Entry = {kind: 'nodePort', address: null, port: port.nodePort};
  return [
    make({kind: 'clusterIP', address: port.clusterIP, port: port.port}, port.clusterIP, preferLocal(port.internalPolicyLocal, owner)),
    ...externalIPsOf(port, context).map(address => make({kind: 'externalIP', address, port: port.port}, address, external)),
    ...[...new Set(port.loadBalancerVIPs)].map(address => make({kind: 'loadBalancerIP', address, port: port.port}, address, external)),
    ...(port.nodePort === 0 ? [] : context.nodeAddresses.map(address => make(nodePort, address, external))),
  ];
}

function externalIPsOf(port: ServicePort, {version, gates}: IpvsContext): readonly string[] {
  return writesExternalIPs(version, gates) ? [...new Set(port.externalIPs)] : [];
}

/** Unlike in the other modes, a Local policy without a local endpoint falls back to all endpoints (kubernetes#97081). */
function preferLocal(policyLocal: boolean, {endpoints: {local, cluster}}: ServedPort): readonly Endpoint[] {
  return policyLocal && local.length > 0 ? local : cluster;
}

function virtualServer(
  {family, protocol, affinitySeconds}: ServicePort,
  {
    address,
    port,
    reals,
    context,
  }: {readonly address: string; readonly port: number; readonly reals: readonly Endpoint[]; readonly context: IpvsContext},
): VirtualServer {
  const {scheduler, version} = context;
  const place = `${protocolFlags[protocol]} ${joinHostPort(address, port)}`;
  const flags = scheduler === 'mh' && hashesPorts(version) ? ['mh-port'] : [];
  const bits = flags.length === 0 ? '' : ` -b ${flags.join()}`;
  const persistent = affinitySeconds === null ? '' : ` -p ${affinitySeconds}`;
  return {
    family,
    protocol,
    address,
    port,
    scheduler,
    flags,
    line: 0,
    persistence: affinitySeconds,
    text: `-A ${place} -s ${scheduler}${bits}${persistent}`,
    realServers: [...new Map(reals.map(endpoint => [endpoint.hostPort, realServer(endpoint, place)])).values()],
  };
}

const protocolFlags: Readonly<Record<Protocol, string>> = {TCP: '-t', UDP: '-u', SCTP: '--sctp-service'};

function realServer(endpoint: Endpoint, place: string): RealServer {
  const address = parseAddress(endpoint.address)?.text ?? endpoint.address;
  const hostPort = joinHostPort(address, endpoint.port);
  return {
    address,
    hostPort,
    port: endpoint.port,
    forwarding: 'masquerade',
    weight: 1,
    upperThreshold: 0,
    line: 0,
    text: `-a ${place} -r ${hostPort} -m -w 1`,
  };
}

/** The addresses that kube-proxy binds to kube-ipvs0 for a Service port, so that the node accepts packets for them. */
function boundAddressesOf(port: ServicePort, context: IpvsContext): readonly string[] {
  const external = [...externalIPsOf(port, context), ...port.loadBalancerVIPs];
  const elsewhere = new Set(sparesOtherInterfaces(context.version) ? context.facts.addresses : []);
  return [...new Set([port.clusterIP, ...external.filter(address => !elsewhere.has(address))])];
}
