import {heldIn, once} from '../once.ts';
import {countFirst, largest} from '../lists.ts';
import {type Address, bitsOf, type Cidr, contains, type Family} from '../address.ts';
import type {NodeObject} from '../api-objects.ts';

/** The facts about a node, apart from its rules. */
export interface NodeFacts {
  readonly name: string;
  /** Addresses of all interfaces, or only those of the Node object if the interfaces were not read. */
  readonly addresses: readonly string[];
  /** True if `addresses` are those of the interfaces, so that every other address is external. */
  readonly allAddresses: boolean;
  /** The Node's own addresses, InternalIP first then ExternalIP, as `GetNodeHostIPs` orders them. */
  readonly hostIPs: readonly string[];
  readonly podCIDRs: readonly string[];
  /** The addresses of its pods that are known, in a family without a podCIDR: by pods, endpoints and routes. */
  readonly podAddresses?: (family: Family) => readonly string[];
  /** A pod of another node, by an address of that node; null if none is known. */
  readonly podOfNode?: (address: Address) => Address | null;
  readonly zone: string | null;
  /** As the Node has it: `5.4.0-150-generic`. */
  readonly kernelVersion?: string;
  /** Labels of the Node, by which `topologyKeys` of Services pick endpoints. */
  readonly labels: Readonly<Record<string, string>>;
  /** Name of the interface with the node's address; null if it was not read. */
  readonly primaryInterface: string | null;
  /** The networks of interfaces, where they were read. */
  readonly onLink?: readonly {readonly name: string; readonly network: string}[];
  readonly network: NetworkFacts;
}

/** The first host address of a family; null if the Node has none. Follows `GetNodeHostIPs`. */
export function hostIP(facts: NodeFacts, family: Family): string | null {
  return facts.hostIPs.find(address => address.includes(':') === (family === 'IPv6')) ?? null;
}

/** Whether the kernel has IPv6 switched off on a node with pods or an address of IPv6: then not even `lo` has an address. */
export function isIPv6Off({addresses, allAddresses, hostIPs, podCIDRs}: NodeFacts): boolean {
  const isOfIPv6 = (address: string): boolean => address.includes(':');
  return allAddresses && [...hostIPs, ...podCIDRs].some(isOfIPv6) && !addresses.some(isOfIPv6);
}

/** Whether kube-proxy's nftables mode refuses to run on a kernel, which it does before 5.13; null if the version is unknown. */
export function isKernelTooOldForNftables(version: string): boolean | null {
  return isOlderKernel(version, [5, 13]);
}

/** Whether a kernel (`5.4.0-150-generic`) is older than a version; null if its version is unknown. */
export function isOlderKernel(version: string, [major, minor]: readonly [major: number, minor: number]): boolean | null {
  const found = /^(\d+)\.(\d+)/.exec(version);
  if (found === null) return null;
  const [own, ownMinor] = [Number(found[1]), Number(found[2])];
  return own < major || (own === major && ownMinor < minor);
}

/** Why a node cannot have rules of kube-proxy, by its Node object; null if it may have them. */
export function whyWithoutKubeProxy({metadata, status}: NodeObject): string | null {
  const labels = metadata.labels ?? {};
  if ((labels['kubernetes.io/os'] ?? status?.nodeInfo?.operatingSystem) === 'windows')
    return 'a Windows node: its Services are not served by iptables';
  if (labels['eks.amazonaws.com/compute-type'] === 'fargate')
    return 'a Fargate node: it runs one pod, and no kube-proxy that could be read';
  const {type = ''} = labels;
  if (type === 'virtual-kubelet' || type === 'kwok') return `a virtual node (${type}): there is no machine behind it`;
  return null;
}

/** What a node's kernel holds beside its rules. Null is "not seen", which is never "empty". */
export interface NetworkFacts {
  readonly links: readonly Link[] | null;
  /** Of all tables. */
  readonly routes: Readonly<Record<Family, readonly Route[] | null>>;
  /** By priority, those of equal priority as the kernel runs them. */
  readonly policyRules: Readonly<Record<Family, readonly PolicyRule[] | null>>;
  /** By name, with dots between all parts: `net.ipv4.conf.eth0.rp_filter`. */
  readonly sysctls: ReadonlyMap<string, string> | null;
  readonly connections: ConnectionStatistics | null;
  /** The same after all else was read. */
  readonly connectionsAfter: ConnectionStatistics | null;
}

/** An interface, as `ip -d -j link` prints it; null for what `ip -j addr` leaves out. */
export interface Link {
  readonly name: string;
  /** `veth`, `bridge`, `vxlan`; empty for a physical one. */
  readonly kind: string | null;
  readonly isUp: boolean;
  /** It takes all packets that it sees, and a bridge answers for its ports. */
  readonly isPromiscuous: boolean;
  readonly mtu: number | null;
  /** Its group, a number or a name of it, if it is not the default one. */
  readonly group?: string;
  /** The type of its addresses, such as `ether`, if it was read. */
  readonly type?: string;
  /** The bridge, bond or VRF that it is a port of. */
  readonly master: string | null;
  /** The other end is in another network namespace, as that of a pod. */
  readonly isPeerElsewhere: boolean;
  /** A port of a bridge that may send a packet back to where it came from; null if it is no port of a bridge. */
  readonly hairpin: boolean | null;
  /** A port of a bridge that exchanges no packets with other such ports. */
  readonly isIsolated: boolean;
  /** A port of a bridge that is up, by which the bridge sends and takes nothing: its state is not `forwarding`. */
  readonly isBlocked?: true;
  /** A port that learns no addresses, to which the bridge sends only what is for addresses that a program told it of. */
  readonly isTold?: true;
  /** It asks for no neighbor and answers none (`arp off`). */
  readonly asksNobody?: true;
  readonly vxlan: Vxlan | null;
  /** A bridge that shows packets to iptables whatever the sysctl says. */
  readonly callsIptables: Readonly<Record<Family, boolean>>;
}

/** Of a tunnel that the kernel gives no end to (`external`), packets leave as their routes say, with any id. */
export interface Vxlan {
  readonly name: string;
  readonly id: number;
  readonly port: number;
  readonly carrier: string | null;
  readonly isExternal: boolean;
}

/** Those of a node that are up; null if that was not seen. */
export function vxlansUp({links}: NetworkFacts): readonly Vxlan[] | null {
  return links?.flatMap(({isUp, vxlan}) => (isUp ? (vxlan ?? []) : [])) ?? null;
}

/** Whether one of the tunnels of another node takes what this one sends. Those of which no details were read may. */
export function isTakenBy(sent: Vxlan, others: readonly Vxlan[]): boolean {
  const isOpen = ({isExternal, port}: Vxlan): boolean => isExternal || port === 0;
  return isOpen(sent) || others.some(other => isOpen(other) || (other.port === sent.port && other.id === sent.id));
}

/** What rules ask of an interface beside its name. */
export type LinkProperty = 'group' | 'kind' | 'type';

export interface Route {
  /** `unicast`, `local`, `broadcast`, `multicast`, `anycast`, `unreachable`, `blackhole`, `prohibit`, `throw`. */
  readonly kind: string;
  readonly to: Cidr;
  readonly table: string;
  readonly metric: number;
  /** One, or several that the kernel chooses from for each connection. Dead ones are left out. */
  readonly hops: readonly {
    readonly dev: string | null;
    readonly gateway: string | null;
    /** The interface has no carrier, and the kernel takes the hop all the same. */
    readonly isDown?: true;
  }[];
  /** The source address of packets that the node itself sends. */
  readonly source: string | null;
  /** It depends on something that is not evaluated, such as the type of service. */
  readonly isConditional: boolean;
  /** It is for packets of this network alone, as IPv6 has it. */
  readonly from?: Cidr;
  /** It gives packets a realm. */
  readonly hasRealm?: true;
}

/** From the first to the last, both included. */
type NumberRange = readonly [number, number];

/** A rule of `ip rule`. A condition that is left out holds for every packet. */
export interface PolicyRule {
  readonly priority: number;
  /** The rule applies to all packets but those that match. */
  readonly isInverted: boolean;
  readonly from: Cidr | null;
  readonly to: Cidr | null;
  readonly mark: {readonly value: number; readonly mask: number} | null;
  readonly iif: string | null;
  /** The type of service. */
  readonly tos: number | null;
  /** The name of a protocol, such as `tcp`. */
  readonly protocol: string | null;
  readonly sourcePorts: NumberRange | null;
  readonly ports: NumberRange | null;
  /** The users whose processes send the packets. What arrives and is sent on is root's. */
  readonly users: NumberRange | null;
  /** It gives packets a realm. */
  readonly hasRealm?: true;
  /** Names of conditions that are not evaluated, such as `tun_id`. */
  readonly unevaluated: readonly string[];
  readonly action:
    | {
        readonly kind: 'lookup';
        readonly table: string;
        /** What it finds is left to the next rule if its prefix is no longer, or if it leads by an interface of this group. */
        readonly suppressedPrefix: number | null;
        readonly suppressedGroup?: string;
      }
    | {readonly kind: 'goto'; readonly priority: number}
    | {readonly kind: 'unreachable' | 'nop' | 'unknown'};
}

/** The sums of `conntrack -S` over all processors, since the node was booted. */
export interface ConnectionStatistics {
  readonly insertFailed: number;
  /** Packets that were dropped because the table was full. */
  readonly dropped: number;
  readonly earlyDropped: number;
}

/** Nothing was seen. */
export const noNetworkFacts: NetworkFacts = {
  links: null,
  routes: {IPv4: null, IPv6: null},
  policyRules: {IPv4: null, IPv6: null},
  sysctls: null,
  connections: null,
  connectionsAfter: null,
};

/** By which a node forwards packets, whatever the interface. */
export const forwardingSwitch: Readonly<Record<Family, string>> = {IPv4: 'net.ipv4.ip_forward', IPv6: 'net.ipv6.conf.all.forwarding'};

/** A number among the sysctls; null if it was not seen. */
export function sysctlNumber({sysctls}: NetworkFacts, name: string): number | null {
  const text = sysctls?.get(name);
  return text === undefined || !/^-?\d+$/.test(text) ? null : Number(text);
}

/** How many connections the kernel tracks, and how many it can; null if that was not seen. */
export function trackedConnections(network: NetworkFacts): {readonly count: number; readonly max: number} | null {
  const [count, max] = ['count', 'max'].map(name => sysctlNumber(network, `net.netfilter.nf_conntrack_${name}`));
  return count == null || max == null || max === 0 ? null : {count, max};
}

/** Whether packets with a loopback address may leave by an interface; null if that was not seen. Follows `IN_DEV_ROUTE_LOCALNET`. */
export function routesLoopback(network: NetworkFacts, dev: string | null): boolean | null {
  const [all, own] = ['all', dev ?? ''].map(name => sysctlNumber(network, `net.ipv4.conf.${name}.route_localnet`));
  if (all === 1 || own === 1 || dev === 'lo') return true;
  return all === 0 && own === 0 ? false : null;
}

/**
 * Where the kernel sends a packet. `unreachable`: it is refused or dropped, or no route leads there. `unknown`: routes or rules were not seen, or
 * it depends on what is not known.
 */
export type RouteResult = Way<'local'> | Way<'unicast'> | {readonly kind: 'unreachable'} | {readonly kind: 'unknown'};

export interface Way<Kind> {
  readonly kind: Kind;
  readonly dev: string;
  readonly gateway: string | null;
  /** Those of several next hops, where `gateway` names none. */
  readonly gateways?: readonly string[];
  readonly source: string | null;
  /** The interface has no carrier: the packet is lost. */
  readonly isDown?: true;
}

export const unknownRoute: RouteResult = {kind: 'unknown'};

/** What is known of a packet; a condition about what is left out cannot be evaluated. */
export interface RouteQuery {
  readonly source?: Address;
  readonly mark?: number;
  /** The type of service, if a rule gave it one. */
  readonly tos?: number;
  /** The interface by which it arrives; `lo` for a packet of the node itself. */
  readonly iif?: string;
  readonly protocol?: string;
  readonly sourcePort?: number;
  readonly port?: number;
}

/**
 * Looks up a destination as `ip route get` does: the policy rules by priority, and the longest prefix in the table of each.
 */
export function routeOf(facts: NetworkFacts, destination: Address, query: RouteQuery = {}): RouteResult {
  const {family} = destination;
  const routes = facts.routes[family];
  const rules = facts.policyRules[family];
  if (routes === null || rules === null) return unknownRoute;
  const tables = new Map<string, Found>();
  const lookUp = (table: string): Found => heldIn(tables, table, () => inTable(routes, table, destination, query.source));
  const lookup = {lookUp, destination, query, links: facts.links, mayBeOfVrf: mayBeOfVrf(facts, query.iif)};
  const found = byRules(rules, lookup);
  if (missingTable(facts, family) === null) return found;
  return isSame(found, byRules(usualRules, lookup)) ? found : unknownRoute;
}

/**
 * The table that no rule of IPv6 leads to, although no other rules are there; null if there is none. Until a rule is added, the kernel looks
 * up both tables without any (`fib6_rule_lookup`); whether one was, nothing shows.
 */
export function missingTable({policyRules}: NetworkFacts, family: Family): string | null {
  const [first, ...others] = family === 'IPv6' ? (policyRules.IPv6 ?? []) : [];
  if (first?.action.kind !== 'lookup' || others.length > 0) return null;
  const other = new Map([
    ['0 local', 'main'],
    ['32766 main', 'local'],
  ]);
  return other.get(`${first.priority} ${first.action.table}`) ?? null;
}

/** Whether no route and no rule gives packets a realm; false if either was not read. */
export function isWithoutRealms({routes, policyRules}: NetworkFacts, family: Family): boolean {
  const [own, rules] = [routes[family], policyRules[family]];
  return own !== null && rules !== null && ![...own, ...rules].some(({hasRealm}) => hasRealm);
}

/** The rules of nodes without policy routing. */
export const usualRules = ['local', 'main', 'default'].map(
  (table, priority): PolicyRule => ({
    priority,
    isInverted: false,
    from: null,
    to: null,
    mark: null,
    iif: null,
    tos: null,
    protocol: null,
    sourcePorts: null,
    ports: null,
    users: null,
    unevaluated: [],
    action: {kind: 'lookup', table, suppressedPrefix: null},
  }),
);

interface Lookup {
  readonly lookUp: (table: string) => Found;
  readonly destination: Address;
  readonly query: RouteQuery;
  readonly links: NetworkFacts['links'];
  readonly mayBeOfVrf: boolean;
}

/** The first rule that takes the packet decides, as far as it is known which rules match: on most nodes for all. */
function byRules(rules: readonly PolicyRule[], lookup: Lookup): RouteResult {
  for (const [at, rule] of rules.entries()) {
    const matches = matchesRule(rule, lookup);
    if (matches === null || (matches && rule.action.kind === 'goto')) return byOpenRules(rules.slice(at), lookup);
    const taken = matches ? byAction(rule, lookup) : null;
    if (taken !== null) return taken;
  }
  return {kind: 'unreachable'};
}

/**
 * What the rules from each one on lead to is known before those that come earlier, since a `goto` leads to a later one. Where it is not
 * known whether a rule matches, its result must be that of the rules after it.
 */
function byOpenRules(rules: readonly PolicyRule[], lookup: Lookup): RouteResult {
  const from: RouteResult[] = Array.from({length: rules.length + 1}, () => ({kind: 'unreachable'}));
  for (const [at, rule] of [...rules.entries()].reverse()) {
    const rest = from[at + 1] ?? unknownRoute;
    const matches = matchesRule(rule, lookup);
    const target = rule.action.kind === 'goto' ? from[targetOf(rules, at, rule.action.priority)] : undefined;
    const taken = matches === false ? null : (target ?? byAction(rule, lookup));
    const isRest = taken === null || isSame(taken, rest);
    from[at] = isRest ? rest : matches ? taken : unknownRoute;
  }
  return from[0] ?? unknownRoute;
}

/** The first rule of this priority or a later one, behind the `goto`. Rules are in the order of their priorities. */
function targetOf(rules: readonly PolicyRule[], at: number, priority: number): number {
  return countFirst(rules.length, index => index <= at || (rules[index]?.priority ?? 0) < priority);
}

/** Null if the rule leaves the packet to the next one. */
function byAction({action}: PolicyRule, lookup: Lookup): RouteResult | null {
  const {links, lookUp} = lookup;
  if (action.kind === 'nop') return null;
  if (action.kind === 'unreachable') return {kind: 'unreachable'};
  if (action.kind !== 'lookup') return unknownRoute;
  const found = lookUp(action.table);
  if (found.kind === 'none') return null;
  // The kernel suppresses only routes that lead somewhere.
  const {result} = found;
  if (result.kind === 'unreachable') return result;
  if (found.prefix <= (action.suppressedPrefix ?? -1)) return null;
  if (action.suppressedGroup === undefined || result.kind === 'unknown') return result;
  const link = links?.find(({name}) => name === result.dev);
  return link === undefined ? unknownRoute : (link.group ?? 'default') === action.suppressedGroup ? null : result;
}

/** Whether a packet may belong to a VRF. Of the node's own only those do whose socket is bound to it, as none of a Service is. */
function mayBeOfVrf({links}: NetworkFacts, iif: string | undefined): boolean {
  if (links === null) return true;
  const vrfs = vrfsAmong(links);
  if (vrfs.size === 0 || iif === 'lo') return false;
  const link = links.find(({name}) => name === iif);
  return link === undefined || vrfs.has(link.master ?? link.name);
}

const vrfsAmong = once((links: readonly Link[]) => new Set(links.flatMap(({kind, name}) => (kind === 'vrf' ? [name] : []))));

/** Null if that is not known. */
function matchesRule(rule: PolicyRule, {destination, query, mayBeOfVrf}: Lookup): boolean | null {
  const {from, to, mark, iif, tos, protocol, sourcePorts, ports, users, unevaluated, isInverted} = rule;
  const {source} = query;
  const user = query.iif === undefined || query.iif === 'lo' ? undefined : 0;
  const isAsked: readonly (boolean | null)[] = [
    to === null || contains(to, destination),
    from === null || from.prefix === 0 || (source === undefined ? null : contains(from, source)),
    mark === null || (query.mark === undefined ? null : (query.mark & mark.mask) >>> 0 === mark.value),
    iif === null || (query.iif === undefined ? null : query.iif === iif),
    tos === null || (query.tos === undefined ? null : (query.tos & 0xfc) === tos),
    protocol === null || (query.protocol === undefined ? null : query.protocol === protocol),
    holdsNumber(sourcePorts, query.sourcePort),
    holdsNumber(ports, query.port),
    holdsNumber(users, user),
    // Only packets of the interfaces of a VRF have one to look up, and only sockets that are bound to an interface have that one.
    ...unevaluated.map(name => (/^(?:l3mdev|oif)$/.test(name) && !mayBeOfVrf ? false : null)),
  ];
  const all = isAsked.includes(false) ? false : isAsked.includes(null) ? null : true;
  return isInverted && all !== null ? !all : all;
}

/** Null if the number is not known, and the range has not all of them. */
function holdsNumber(range: NumberRange | null, value: number | undefined): boolean | null {
  if (range === null || (range[0] === 0 && range[1] >= 0xff_ff_ff_fe)) return true;
  return value === undefined ? null : range[0] <= value && value <= range[1];
}

type Found = {readonly kind: 'none'} | {readonly kind: 'found'; readonly prefix: number; readonly result: RouteResult};

function inTable(routes: readonly Route[], table: string, {family, value}: Address, source: Address | undefined): Found {
  const bits = bitsOf(family);
  for (const [prefix, byNetwork] of indexOf(routes).get(table) ?? []) {
    const found = forSource(byNetwork.get(value >> BigInt(bits - prefix)) ?? [], source);
    if (found.length > 0) return bestOf(found);
  }
  return {kind: 'none'};
}

/**
 * Of a network for which some sources have routes of their own: those, or none, since the kernel leaves other sources to wider networks
 * (`fib6_node_lookup_1`); where there is no wider one, the default route takes them. A process without a source gets one and asks again
 * (`ip6_dst_lookup_tail`).
 */
function forSource(found: readonly Route[], source: Address | undefined): readonly Route[] {
  if (source === undefined || source.value === 0n || found.every(({from}) => from === undefined)) return found;
  const own = found.filter(({from}) => from !== undefined && contains(from, source));
  const narrowest = largest(own.map(({from}) => from?.prefix ?? 0));
  return own.length === 0
    ? found.filter(({from, to}) => from === undefined && to.prefix === 0)
    : own.filter(({from}) => from?.prefix === narrowest).map(({from: _, ...route}) => route);
}

/** Of the routes to one network. Of equal ones of IPv4, the kernel takes the first that it lists. */
const bestOf = once((found: readonly Route[]): Found => {
  const least = -largest(found.map(({metric}) => -metric));
  const best = found.filter(({metric}) => metric === least);
  const [first] = best;
  if (first === undefined || (first.kind === 'throw' && !first.isConditional)) return {kind: 'none'};
  const isFirstTaken = first.to.family === 'IPv4' && first.hops.every(({isDown}) => isDown !== true);
  const isOpen = best.some(({isConditional}) => isConditional) || found.some(({from}) => from !== undefined);
  const result = isOpen ? unknownRoute : common((isFirstTaken ? [first] : best).flatMap(resultsOf));
  return {kind: 'found', prefix: first.to.prefix, result};
});

/** Routes by table, length of the prefix (the longest first) and network. */
type RouteIndex = ReadonlyMap<string, ReadonlyMap<number, ReadonlyMap<bigint, readonly Route[]>>>;

/** A router may have thousands of routes. */
const indexOf = once((routes: readonly Route[]): RouteIndex => {
  const sorted = routes.toSorted((a, b) => b.to.prefix - a.to.prefix);
  const byNetwork = (group: readonly Route[]) =>
    Map.groupBy(group, ({to: {family, base, prefix}}) => base >> BigInt(bitsOf(family) - prefix));
  const byPrefix = (group: readonly Route[]) =>
    new Map([...Map.groupBy(group, ({to}) => to.prefix)].map(([prefix, same]) => [prefix, byNetwork(same)]));
  return new Map([...Map.groupBy(sorted, ({table}) => table)].map(([table, same]) => [table, byPrefix(same)]));
});

/** What may happen to a packet. */
function resultsOf({kind, hops, source}: Route): readonly RouteResult[] {
  if (kind === 'unreachable' || kind === 'blackhole' || kind === 'prohibit') return [{kind: 'unreachable'}];
  const isLocal = kind === 'local' || kind === 'broadcast' || kind === 'anycast';
  if (!isLocal && kind !== 'unicast' && kind !== 'multicast') return [unknownRoute];
  return hops.map(({dev, gateway, isDown}) =>
    dev === null ? unknownRoute : {kind: isLocal ? 'local' : 'unicast', dev, gateway, source, ...(isDown === true ? {isDown} : {})},
  );
}

/** The one way of several, by one interface: to one gateway, or to each of some. */
function common(results: readonly RouteResult[]): RouteResult {
  const [first = unknownRoute] = results;
  if (first.kind === 'unknown' || results.every(other => isSame(first, other))) return first;
  if (first.kind !== 'unicast') return unknownRoute;
  const gateways = results.flatMap(one => (one.kind === 'unicast' && one.dev === first.dev ? (one.gateway ?? []) : []));
  return gateways.length === results.length ? {...first, gateway: null, gateways} : unknownRoute;
}

/** Whether two routes are known to lead to one place. */
export function isSame(a: RouteResult, b: RouteResult): boolean {
  if (!('dev' in a) || !('dev' in b)) return a.kind === 'unreachable' && a.kind === b.kind;
  return a.kind === b.kind && a.dev === b.dev && String(a.gateway ?? a.gateways) === String(b.gateway ?? b.gateways);
}
