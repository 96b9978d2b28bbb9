import {heldIn, keptWith, once} from '../../model/once.ts';
import {largest, partition} from '../../model/lists.ts';
import {type Address, bitsOf, contains, type Family, joinHostPort, parseAddress, parseCidr} from '../../model/address.ts';
import {holds, intersect, type Intervals, intervalsOf, subtract} from '../../model/intervals.ts';
import type {Seen} from '../../expect/cluster/promised.ts';
import {isLoopback} from '../../expect/node-context.ts';
import {
  hostIP,
  isWithoutRealms,
  type LinkProperty,
  type NetworkFacts,
  type NodeFacts,
  type PolicyRule,
  type Route,
  routeOf,
  type RouteQuery,
  sysctlNumber,
} from '../../model/node/node-facts.ts';
import {isLocalRouteMissing, isOfMany, isSentOn, isUsualRule, leadsToNoNode} from '../../model/node/policy-routing.ts';
import {serverKey, type VirtualServer} from '../../model/virtual-server.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import {addressesIn, parseInterval} from '../../parse/nftables/address-list.ts';
import {isInSet} from '../../trace/iptables/match-set.ts';
import {askAddress, type Environment, isInterfaceLike, type Packet, type NodeRule, type Outcome} from '../../trace/walked-packet.ts';
import type {NftSource, NftTableSource} from '../../model/nft-ruleset.ts';
import type {ChainSource, Rule, RuleText} from '../../model/ruleset.ts';
import {type Side, walkSide} from '../../trace/side.ts';
import type {Probe} from './probes.ts';
import {allAddresses} from '../../trace/sender-space.ts';

interface EnvironmentOptions {
  /** The `recent` lists that hold the packet's source. */
  readonly knownTo?: ReadonlySet<string>;
  /** The node's ipsets; without them a match by set is undetermined. */
  readonly sets?: ReadonlyMap<string, IpSet>;
  /** The node's virtual servers of IPVS. */
  readonly servers?: readonly VirtualServer[];
  /** Addresses of virtual servers that the node has if kube-ipvs0 has them, which was not read. */
  readonly unbound?: ReadonlySet<string>;
  /** Treat an address as unknown, not as external, if the node's interfaces were not read. */
  readonly strict?: boolean;
}

/** The facts of a node that its rules are matched against. */
export function environmentOf(
  facts: NodeFacts,
  {knownTo = new Set(), sets, servers = [], unbound, strict = false}: EnvironmentOptions = {},
): Environment {
  const own = ownAddresses(facts);
  const {interfaceOf, interfaces, behind, canBe} = interfacesOf(facts);
  const byKey = new Map(servers.map(server => [serverKey(server), server]));
  return {
    virtualServer: packet =>
      byKey.size === 0 ? undefined : byKey.get(`${packet.protocol.toUpperCase()} ${joinHostPort(packet.destination.text, packet.port)}`),
    isLocal: address =>
      own.has(address.text) || isLoopback(address.text) || (unbound?.has(address.text) || (strict && !facts.allAddresses) ? null : false),
    canBeInterface: name => canBe(name) ?? (!strict && isNeverOnServicePath(name) ? false : null),
    interfaceOf,
    arrivesBy: (packet, environment) => arrivesBy(facts, packet, environment),
    interfaceWith: address => sourcesOnLink(facts).find(one => one.address.text === address.text)?.dev ?? null,
    isPortOf: (port, name) => facts.network.links?.some(link => isInterfaceLike(port, link.name) && link.master === name) ?? false,
    isBridge: name => isBridge(facts, name),
    linksWith: (property, value) => linksWith(facts, property, value),
    behind,
    interfaces,
    gatewayTo: packet => gatewayTo(facts, packet),
    ownHops: sysctlNumber(facts.network, 'net.ipv4.ip_default_ttl'),
    isWithoutIPsec: ['states', 'policies'].every(name => sysctlNumber(facts.network, `net.xfrm.${name}`) === 0),
    readsQueue: (low, high) => readsQueue(facts, low, high),
    isWithoutRealms: family => isWithoutRealms(facts.network, family),
    localAddresses: family => localRanges(facts)[family],
    inSet: (name, packet, directions, questions) => (sets === undefined ? null : isInSet(sets, name, packet, directions, questions)),
    knownTo,
    isSentOn: packet => isSentOn(facts, packet.destination, routeQuery(packet)),
    redirectAddress: ({family, inInterface}) =>
      sourcesOnLink(facts).find(({dev, address}) => dev === inInterface && address.family === family)?.address ??
      parseAddress(hostIP(facts, family) ?? ''),
    bareInterfaces: bareInterfaces(facts),
    isKnownOutside: address => isKnownOutside(facts, address),
    masqueradeAddress: packet =>
      masqueradeAddress(facts, packet, own.has(packet.destination.text) ? 'lo' : interfaceOf(packet.destination)),
  };
}

function gatewayTo({network}: NodeFacts, packet: Packet): string | null {
  const route = routeOf(network, packet.destination, routeQuery(packet));
  return !('dev' in route) || (route.kind === 'unicast' && route.gateways !== undefined) ? null : (route.gateway ?? '');
}

function readsQueue({network}: NodeFacts, low: number, high: number): boolean | null {
  const queues = network.sysctls?.get('net.netfilter.queues');
  return queues === undefined ? null : (queues.match(/\d+/g) ?? []).some(queue => low <= Number(queue) && Number(queue) <= high);
}

function linksWith({network}: NodeFacts, property: LinkProperty, value: string): readonly string[] | null {
  const links = network.links ?? null;
  if (property === 'type' && links?.some(({type}) => type === undefined) === true) return null;
  return links?.filter(link => linkValue(property, link[property]) === linkValue(property, value)).map(({name}) => name) ?? null;
}

/** Groups are numbers, in tens or hexadecimal, or names; the kind of an interface may not have been read. */
function linkValue(property: LinkProperty, value: string | null | undefined): string | null {
  if (property !== 'group' || value === null) return value ?? null;
  return /^\d/.test(value ?? '') ? String(Number(value)).replace(/^0$/, 'default') : (value ?? 'default');
}

function isBridge({network}: NodeFacts, name: string | null): boolean | null {
  const links = network.links ?? null;
  const bridges = links
    ?.filter(({kind}) => kind === 'bridge' || kind === null)
    .filter(link => links.some(({master}) => master === link.name));
  if (bridges === undefined || name === null) return bridges?.length === 0 ? false : null;
  return bridges.some(link => link.name === name);
}

/** Read once for a node, and not for every walk. */
const ownAddresses = once((facts: NodeFacts) => new Set(localAddresses(facts)));

const localRanges = once((facts: NodeFacts) => {
  const own = localAddresses(facts);
  return {IPv4: ownRanges(own, 'IPv4'), IPv6: ownRanges(own, 'IPv6')};
});

function localAddresses(facts: NodeFacts): readonly string[] {
  return facts.addresses.flatMap(text => {
    const address = parseAddress(text);
    return address !== null && isLocalRouteMissing(facts, address) ? [] : [address?.text ?? text];
  });
}

/** Interfaces that neither pods nor clients of Services use: the loopback, and the bridges of Docker and libvirt. */
function isNeverOnServicePath(pattern: string): boolean {
  return pattern === 'lo' || /^(?:docker\d+|br-[0-9a-f+]+|virbr\d*\+?|podman\d+)$/.test(pattern);
}

/** What routes and links decide about the interfaces of packets. Where neither decides, they are unknown. */
const interfacesOf = once((facts: NodeFacts): Interfaces => {
  const {network} = facts;
  const names = new Map<string, string | null>();
  const sets = new Map<string, Intervals | null>();
  return {
    interfaceOf: (address: Address) => heldIn(names, address.text, () => interfaceOf(facts, address)),
    interfaces: family => [...new Set(mainRoutes(network, family)?.flatMap(({hops}) => hops.flatMap(({dev}) => dev ?? [])) ?? [])],
    behind: (pattern, family) => {
      if (typeof pattern !== 'string') return behind(facts, name => pattern.has(name), family);
      return heldIn(sets, `${family} ${pattern}`, () => behind(facts, name => isInterfaceLike(pattern, name), family));
    },
    canBe: (pattern: string) => canBe(facts, pattern),
  };
});

interface Interfaces extends Required<Pick<Environment, 'interfaceOf' | 'interfaces' | 'behind'>> {
  /** Whether an address whose route is unknown can be behind an interface of this name. */
  readonly canBe: (pattern: string) => boolean | null;
}

/**
 * What others send to an address arrives by the interface whose network holds it, whatever leads back to them, unless that is a tunnel to
 * somebody in this network. What other nodes answer to a pod takes the way of their pods. Everything else arrives by the interface that leads
 * back.
 */
export function arrivesBy(facts: NodeFacts, packet: Packet, environment: Environment): string | null {
  const {source, destination, family, connection} = packet;
  const way = environment.interfaceOf?.(source) ?? null;
  const isForPod = holds(podsHere(facts, family), destination.value);
  const pod = isForPod && connection?.direction === 'reply' ? (facts.podOfNode?.(source) ?? null) : null;
  if (pod !== null) return environment.interfaceOf?.(pod) ?? way;
  if (way === null || isForPod || connection?.direction === 'reply') return way;
  const asked = uplinksOf(facts).filter(({cidr}) => contains(cidr, destination));
  const [first] = asked;
  if (first === undefined || asked.some(({dev}) => dev === way)) return way;
  const others = sendersBy(facts, first, asked);
  if (others === null || !holds(others, source.value)) return way;
  askAddress(others, 'source', packet, environment);
  environment.sender?.commitAdded();
  return first.dev;
}

/** The interfaces with a network that may hold more than pods of the node. */
const uplinksOf = once((facts: NodeFacts) =>
  sourcesOnLink(facts).filter(({dev, cidr}) => cidr.prefix < bitsOf(cidr.family) && !leadsToNoNode(facts, dev)),
);

type Uplink = ReturnType<typeof uplinksOf>[number];

/** All whose packets to an address of an interface arrive by it; null if that is unknown. */
function sendersBy(facts: NodeFacts, {cidr, dev}: Uplink, asked: readonly Uplink[]): Intervals | null {
  const {family} = cidr;
  return keptWith(facts, `senders by ${dev} ${cidr.text}`, () => {
    const [byOthers, byTunnels] = [
      behind(facts, name => asked.some(other => other.dev === name), family),
      behind(facts, name => !isOfMany(facts.network, name), family),
    ];
    if (byOthers === null || byTunnels === null) return null;
    const near = intersect(byTunnels, addressesIn([cidr.text], family));
    return [byOthers, near, podsHere(facts, family), localRanges(facts)[family]].reduce(subtract, allAddresses(family));
  });
}

/** The addresses of a network for all its routers, and for all its hosts, are in table local, and behind its interface as the others. */
function interfaceOf(facts: NodeFacts, address: Address): string | null {
  const {network, onLink = []} = facts;
  const route = routeOf(network, address, {mark: 0, tos: 0});
  if (route.kind !== 'unknown') {
    const isBehind = route.kind === 'unicast' || (route.kind === 'local' && route.dev !== 'lo' && !ownAddresses(facts).has(address.text));
    return isBehind ? route.dev : null;
  }
  // Without routes, an address is on the link that has its network.
  const found = onLink
    .map(one => ({name: one.name, cidr: parseCidr(one.network)}))
    .filter(({cidr}) => cidr !== null && contains(cidr, address))
    .sort((a, b) => (b.cidr?.prefix ?? 0) - (a.cidr?.prefix ?? 0));
  return found[0]?.name ?? null;
}

/**
 * The source that MASQUERADE gives a packet: of the interface by which it leaves, the address whose network has the next hop, or else the
 * first one. The loopback has none, and those of all interfaces are taken. To an address of the node itself, IPv6 takes that one. Sources:
 * `inet_select_addr` and `ipv6_dev_get_saddr` of the kernel.
 */
function masqueradeAddress(facts: NodeFacts, {family, destination, mark, outInterface}: Packet, way: string | null): Address | null {
  const name = outInterface ?? way;
  if (family === 'IPv6' && name === 'lo') return destination;
  const usable = sourcesOnLink(facts).filter(({address}) => address.family === family);
  if (name === null && usable.length > 1) return null;
  const own = usable.filter(({dev}) => dev === name);
  const route = routeOf(facts.network, destination, {mark});
  const gateway = route.kind === 'unicast' ? parseAddress(route.gateway ?? '') : null;
  if (family === 'IPv6') return nearest(own.length > 0 ? own : usable, destination);
  const near = own.find(({cidr}) => contains(cidr, gateway ?? destination)) ?? own[0] ?? usable[0];
  return near?.address ?? null;
}

/** Of the kind of the destination, unique local or global, and with the longest prefix in common with it, up to that of the address. */
function nearest(found: ReturnType<typeof sourcesOnLink>, to: Address): Address | null {
  const score = ({cidr: {prefix}, address}: (typeof found)[number]): number => {
    const common = 128 - (address.value ^ to.value).toString(2).replace(/^0$/, '').length;
    return (isUniqueLocal(address) === isUniqueLocal(to) ? 128 : 0) + Math.min(prefix, common);
  };
  const best = largest(found.map(score));
  return found.find(one => score(one) === best)?.address ?? null;
}

function isUniqueLocal({value}: Address): boolean {
  return value >> 121n === 0x7en;
}

/** The addresses from which a node sends to others, with their networks and interfaces. */
const sourcesOnLink = once(({onLink = []}: NodeFacts) =>
  onLink.flatMap(({name: dev, network}) => {
    const [cidr, address] = [parseCidr(network), parseAddress(network.replace(/\/.*/, ''))];
    if (cidr === null || address === null || isLoopback(address.text) || address.text.startsWith('fe80:')) return [];
    return [{dev, cidr, address}];
  }),
);

/** An address of the loopback or of a dummy device, in no network of the node, is known to those whom a router told of it. */
function isKnownOutside({hostIPs, podCIDRs, onLink = [], network}: NodeFacts, {family, value}: Address): boolean {
  const isBehindNone = (dev: string): boolean => dev === 'lo' || network.links?.find(({name}) => name === dev)?.kind === 'dummy';
  const [aside, near] = partition(onLink, ({name}) => isBehindNone(name));
  const isIn = (texts: readonly string[]): boolean => holds(addressesIn(texts, family), value);
  const isAside = aside.some(one => isIn([one.network]));
  return !isAside || isIn([...hostIPs, ...podCIDRs, ...near.map(one => one.network)]);
}

/** What follows for packets with such a source address. */
export const unknownOutside = 'which is in no network of this node: whether replies to it come back is not known';

const bareInterfaces = once((facts: NodeFacts) => {
  const names = facts.allAddresses ? (facts.network.links ?? []).map(({name}) => name) : [];
  const used = new Set(sourcesOnLink(facts).flatMap(({dev, address}) => (address.family === 'IPv4' ? [dev] : [])));
  return new Set(names.filter(name => name !== 'lo' && !used.has(name)));
});

/** Above this number of routes, which addresses are behind an interface is not computed. */
const maxRoutes = 2_000;

/** The routes of table main. Null unless the policy rules for packets without a mark are the usual ones. */
function mainRoutes(network: NetworkFacts, family: Family): readonly Route[] | null {
  const [own, rules] = [network.routes[family] ?? null, network.policyRules[family] ?? null];
  if (own === null || rules === null || own.length > maxRoutes || rules.some(rule => !isUsualRule(rule) && !isForMarked(rule))) return null;
  return own.filter(({table}) => table === 'main' || table === '254');
}

function isForMarked({mark, isInverted}: PolicyRule): boolean {
  return mark !== null && mark.value !== 0 && !isInverted;
}

function behind(facts: NodeFacts, isWanted: (name: string) => boolean, family: Family): Intervals | null {
  const main = mainRoutes(facts.network, family);
  if (main === null) return null;
  let found: Intervals = [];
  for (const {to, hops} of main.toReversed().toSorted((a, b) => a.to.prefix - b.to.prefix || b.metric - a.metric)) {
    const range = parseInterval(to.text);
    if (range === null) continue;
    const network: Intervals = [[range.low, range.high]];
    found = hops.some(({dev}) => dev !== null && isWanted(dev)) ? intervalsOf([...found, ...network]) : subtract(found, network);
  }
  // What the node sends to itself passes the loopback, whatever interface has the address.
  const own = localRanges(facts)[family];
  return isWanted('lo') ? intervalsOf([...found, ...own]) : subtract(found, own);
}

/** Whether an address can be behind an interface of this name, where its route is not known: only if the node has such an interface. */
function canBe({network}: NodeFacts, pattern: string): boolean | null {
  const links = network.links ?? null;
  return links === null || links.some(({name}) => isInterfaceLike(pattern, name)) ? null : false;
}

/** The node's own addresses of a family. */
function ownRanges(addresses: readonly string[], family: Family): Intervals {
  const own = addresses.flatMap(text => parseAddress(text) ?? []).filter(address => address.family === family);
  const loopback = parseInterval(family === 'IPv4' ? '127.0.0.0/8' : '::1');
  return intervalsOf([
    ...own.map(({value}) => [value, value] as const),
    ...(loopback === null ? [] : [[loopback.low, loopback.high] as const]),
  ]);
}

/** The addresses of the node's pods: its networks, and in a family without one the pods that are known. */
export function podsHere(facts: NodeFacts, family: Family): Intervals {
  return keptWith(facts, `pods of ${family}`, () => addressesIn([...facts.podCIDRs, ...(facts.podAddresses?.(family) ?? [])], family));
}

/** What rules of policy routing may ask. */
export function routeQuery({mark, tos, source, origin, inInterface, protocol, sourcePort, port}: Packet): RouteQuery {
  const iif = origin === 'node' ? 'lo' : inInterface;
  return {mark, tos, source, sourcePort, protocol, port, iif: iif ?? undefined};
}

/** One packet walked through the expected and through the actual rules. */
export interface ProbeComparison {
  readonly probe: Probe;
  readonly expected: PathOutcome;
  readonly actual: PathOutcome;
}

/** All outcomes of one walk, grouped by where they end. */
export interface PathOutcome extends Seen {
  readonly outcomes: readonly Outcome[];
  readonly destinations: ReadonlyMap<string, Share>;
}

export interface Share {
  readonly probability: number;
  readonly masquerade: boolean;
  /** The list (of `recent`, or an affinity set) that records the client, so that it returns to this endpoint; null if there is none. */
  readonly remembered: string | null;
  readonly path: readonly NodeRule[];
}

/** Walks a packet through one set of rules. */
export type Walk = (packet: Packet, environment: Environment) => PathOutcome;

/** The walks of the same packets through the rules that are expected, or that others are compared with, and through the actual ones. */
export interface BothWalks {
  readonly expected: Walk;
  readonly actual: Walk;
}

export function collectPathOutcome(outcomes: readonly Outcome[]): PathOutcome {
  const destinations = new Map<string, Share>();
  const other = {passed: 0, rejected: 0, dropped: 0, undecided: 0};
  for (const {verdict, destination, probability, masquerade, path} of outcomes) {
    if (verdict === 'accept' && destination !== null) {
      const before = destinations.get(destination);
      destinations.set(destination, {
        probability: (before?.probability ?? 0) + probability,
        masquerade: masquerade || (before?.masquerade ?? false),
        remembered: before?.remembered ?? rememberedIn(path),
        path: before?.path ?? path,
      });
    } else other[verdictNames[verdict]] += probability;
  }
  return {outcomes, destinations, ...other};
}

/** The list that a path enters the client into: of `recent`, by the rule that translates, or an affinity set of nftables. */
function rememberedIn(path: readonly (RuleText & Partial<Pick<Rule, 'target' | 'matches'>>)[]): string | null {
  const rule = path.findLast(({target, text}) => (target === undefined ? text.startsWith('update @') : target?.name === 'DNAT'));
  if (rule?.target === undefined) return /^update @(\S+) \{/.exec(rule?.text ?? '')?.[1] ?? null;
  const recent = rule.matches?.find(({name, options}) => name === 'recent' && options.some(({flag}) => flag === '--set'));
  return recent?.options.find(({flag}) => flag === '--name')?.values[0] ?? null;
}

/** Where a packet ends on a side. */
export function outcomeOn(side: Side, packet: Packet): PathOutcome {
  return collectPathOutcome(walkSide(side, packet));
}

/** The walk of packets through these rules of iptables. */
export function walkOf(rules: ChainSource): Walk {
  return (packet, environment) => outcomeOn({iptables: [rules], nft: null, environment}, packet);
}

/** The walk of packets through this table alone. */
export function tableWalkOf(table: NftTableSource): Walk {
  const source = sourceOf(table);
  return (packet, environment) => outcomeOn({iptables: [], nft: source, environment}, packet);
}

/** A walk caches how long the paths of each ruleset may get. */
const sourceOf = once((table: NftTableSource): NftSource => ({tableSources: [table]}));

export const verdictNames = {accept: 'passed', reject: 'rejected', drop: 'dropped', undecided: 'undecided'} as const;

/** Probabilities are printed by iptables in units of 2^-31, and by kube-proxy up to 1.16 with five decimals. */
const tolerance = 2e-5;

/** Whether two walks end in the same outcomes, shares and masquerading, and record the client alike. */
export function isSameOutcome(a: PathOutcome, b: PathOutcome): boolean {
  if (!hasSameEnds(a, b)) return false;
  for (const [destination, share] of a.destinations) {
    const other = b.destinations.get(destination);
    if (other?.masquerade !== share.masquerade || other.remembered !== share.remembered) return false;
  }
  return true;
}

/** Whether two walks end in the same outcomes with the same shares. */
export function hasSameEnds(a: PathOutcome, b: PathOutcome): boolean {
  if (a.destinations.size !== b.destinations.size) return false;
  for (const [destination, {probability}] of a.destinations)
    if (!near(b.destinations.get(destination)?.probability ?? 0, probability)) return false;
  return near(a.passed, b.passed) && near(a.rejected, b.rejected) && near(a.dropped, b.dropped) && near(a.undecided, b.undecided);
}

/** Whether two walks end in outcomes of the same kinds: an endpoint, a refusal or none, and whether packets are masqueraded. */
export function hasSameKinds(a: PathOutcome, b: PathOutcome): boolean {
  return kindsOf(a) === kindsOf(b);
}

function kindsOf({destinations, passed, rejected, dropped, undecided}: PathOutcome): string {
  const isMasqueraded = [...destinations.values()].some(({masquerade}) => masquerade);
  return [destinations.size > 0, isMasqueraded, passed > 0, rejected > 0, dropped > 0, undecided > 0].join();
}

export function near(a: number, b: number): boolean {
  return Math.abs(a - b) <= tolerance;
}

/** Where the packets of a walk end, and what their senders see of it. */
export function describeLoss(pathOutcome: PathOutcome): string {
  const {passed, destinations} = pathOutcome;
  const seen = near(passed, 0)
    ? ''
    : destinations.size > 0
      ? `: ${Math.round(passed * 100)}% of connections time out`
      : ': connections time out';
  return `${describePathOutcome(pathOutcome)}${seen}`;
}

/** Where the packets of a walk end, in a few words. */
export function describePathOutcome(pathOutcome: PathOutcome): string {
  const parts: string[] = [];
  if (pathOutcome.destinations.size > 0)
    parts.push(
      pathOutcome.destinations.size > 3 ? `${pathOutcome.destinations.size} endpoints` : [...pathOutcome.destinations.keys()].join(', '),
    );
  if (pathOutcome.rejected > 0) parts.push('a REJECT');
  if (pathOutcome.dropped > 0) parts.push('a DROP');
  if (pathOutcome.undecided > 0) parts.push('a rule that cannot be evaluated');
  if (pathOutcome.passed > 0) parts.push('no endpoint at all');
  return parts.join(' and ');
}
