import {bitsOf, type Address, contains, families, type Family, parseAddress, parseCidr} from '../address.ts';
import {partition} from '../lists.ts';
import {keptWith, once} from '../once.ts';
import {
  isSame,
  type Link,
  type NetworkFacts,
  type NodeFacts,
  type PolicyRule,
  type Route,
  routeOf,
  type RouteQuery,
  type RouteResult,
  sysctlNumber,
  unknownRoute,
  usualRules,
  type Way,
} from './node-facts.ts';

/** A rule of policy routing that sends packets away from a pod to which table main has a route. */
export interface Astray {
  /** Where packets go: by an interface, to a gateway, or to the node itself. */
  readonly way: string;
  /** The interface that leads to the pod, or the gateway. */
  readonly instead: string;
  /** Null if no single rule does it. */
  readonly rule: PolicyRule | null;
}

/**
 * Whether policy routing sends a packet by a default route, although table main leads to a pod of the node, into a tunnel, or by a gateway
 * of its own to another node; or by a default route without a gateway, which asks for the address where nobody has it; or to the node
 * itself, as proxies let it deliver what they marked; or out of the network of an interface, to another one that is in it no more than at the
 * address. Null if it does not, or if that is not known. The routes of other tables that name the pod's network, such as those of an encrypted
 * network of pods, lead there in another way.
 */
export function routedAstray(facts: NodeFacts, destination: Address, query: RouteQuery): Astray | null {
  const {network} = facts;
  const {family} = destination;
  if (!isPolicyRouted(network, family)) return null;
  const usual = routeOf(withUsualRules(network), destination, query);
  const route = routeOf(network, destination, query);
  // A rule before table local.
  if (usual.kind === 'local' && route.kind === 'unicast' && query.iif !== undefined) {
    const isHere = (without: NetworkFacts): boolean => routeOf(without, destination, query).kind !== 'unicast';
    return {way: `by ${route.dev}`, instead: 'lo', rule: ruleBehind(network, family, isHere)};
  }
  if (usual.kind !== 'unicast') return null;
  const cause = (): PolicyRule | null => ruleBehind(network, family, without => isSame(usual, routeOf(without, destination, query)));
  if (route.kind === 'local') return {way: 'to the node itself', instead: usual.dev, rule: cause()};
  if (route.kind !== 'unicast' || isSame(route, usual) || !(leadsToPods(facts, family, usual) || asksForAll(facts, route))) return null;
  const rule = cause();
  const isOut = usual.dev !== facts.primaryInterface && podsBehind(network, usual.dev) && !podsBehind(network, route.dev);
  const isAway =
    isDefaultWay(network, route, family, query) ||
    (isOut && usual.gateway === null && isPodHere(facts, destination)) ||
    (asksForAll(facts, route) && (isByDefaultOf(network, rule, destination) || isOffLink(facts, destination, usual, route)));
  if (!isAway) return null;
  // Branch interfaces of AWS send what pods of theirs send to a gateway of their own, which leads back to each pod.
  const isUsualGateway = usual.gateway !== null && isDefaultWay(withUsualRules(network), route, family);
  const isBack = route.dev === query.iif && !leadsToPodsHere(facts, rule, family);
  if (rule !== null && rule.iif !== null && route.gateway !== null && !isUsualGateway && !isBack) return null;
  if (route.dev !== usual.dev || route.gateway === null || usual.gateway === null)
    return {way: `by ${route.dev}`, instead: usual.dev, rule};
  return {way: `to the gateway ${route.gateway}`, instead: `the gateway ${usual.gateway}`, rule};
}

/** An interface by which packets are lost, or some of them where it is one of several next hops that the kernel chooses from for each connection. */
export interface LossyWay {
  readonly dev: string;
  readonly isOneOfSeveral: boolean;
  /** It has a carrier, and asks for no neighbor: only those with permanent entries are found. */
  readonly isSilent?: true;
}

/** The interface by which packets to an address are lost; null if there is none, or if that is not known. */
export function downWay(network: NetworkFacts, destination: Address, query: RouteQuery): LossyWay | null {
  if (!hasLossyWays(network)) return null;
  const silent = silentLinks(network);
  const route = routeOf(network, destination, query);
  if (route.kind === 'unicast') {
    const {dev, isDown} = route;
    if (isDown === true) return {dev, isOneOfSeveral: false};
    return silent.has(dev) ? {dev, isOneOfSeveral: false, isSilent: true} : null;
  }
  if (route.kind !== 'unknown') return null;
  const down = routeOf(withDownWays(network), destination, query);
  return down.kind === 'unicast' && down.isDown === true ? {dev: down.dev, isOneOfSeveral: true} : null;
}

/** Whether some packets may be lost by an interface. */
export function hasLossyWays(network: NetworkFacts): boolean {
  return hasDownWays(network) || silentLinks(network).size > 0;
}

const silentLinks = once(
  ({links}: NetworkFacts): ReadonlySet<string | null> => new Set((links ?? []).filter(isSilent).map(({name}) => name)),
);

/** The link of a pod, or the bridge of several, whose ARP is off. Of tunnels, and where cards find neighbors, that is usual. */
function isSilent({asksNobody, kind, isPeerElsewhere}: Link): boolean {
  return asksNobody === true && (kind === 'bridge' || (kind === 'veth' && isPeerElsewhere));
}

const hasDownWays = once(({routes}: NetworkFacts) => families.some(family => routes[family]?.some(isPartlyDown) === true));

function isPartlyDown({hops}: Route): boolean {
  return hops.some(({isDown}) => isDown === true);
}

/** As if the kernel took the hops without a carrier where it takes some of them. Routes of IPv6 may be printed one for each hop. */
const withDownWays = once((network: NetworkFacts): NetworkFacts => {
  const without = (routes: readonly Route[] | null): readonly Route[] | null => {
    const key = ({to, table, metric}: Route): string => `${to.text} ${table} ${metric}`;
    const down = new Set(routes?.filter(isPartlyDown).map(key));
    return (
      routes
        ?.filter(route => isPartlyDown(route) || !down.has(key(route)))
        .map(route => (isPartlyDown(route) ? {...route, hops: route.hops.filter(({isDown}) => isDown === true)} : route)) ?? null
    );
  };
  return {...network, routes: {IPv4: without(network.routes.IPv4), IPv6: without(network.routes.IPv6)}};
});

/**
 * Interfaces of pods, bridges of them, and those with an address among the addresses of pods, that are down: the kernel removed the routes to
 * these pods.
 */
export function downPodLinks(facts: NodeFacts, pods: readonly Address[]): readonly string[] {
  const {network, podCIDRs} = facts;
  const links = network.links ?? [];
  const ranges = podCIDRs.flatMap(text => parseCidr(text) ?? []);
  const isOfPods = ({isPeerElsewhere, name, master}: Link): boolean =>
    (isPeerElsewhere && master === null) ||
    links.some(port => port.isPeerElsewhere && port.master === name) ||
    networksOnLink(facts).some(({name: dev, cidr}) => {
      const first = {family: cidr.family, value: cidr.base};
      return dev === name && (pods.some(pod => contains(cidr, pod)) || ranges.some(range => contains(range, first)));
    });
  return links.flatMap(link => (!link.isUp && isOfPods(link) ? [link.name] : []));
}

/**
 * A tunnel with an address where all such are down: the kernel took their routes away. One of WireGuard may be the administrator's, unless
 * its address is among those of pods.
 */
export function downTunnel(facts: NodeFacts): string | null {
  const {network, onLink = []} = facts;
  const tunnels = (network.links ?? []).filter(({kind}) => kind === 'vxlan' || kind === 'geneve' || kind === 'wireguard');
  if (tunnels.some(({isUp}) => isUp)) return null;
  const ofPods = downPodLinks(facts, []);
  const isOfPlugin = ({kind, name}: Link): boolean =>
    kind === 'wireguard' ? ofPods.includes(name) : onLink.some(own => own.name === name);
  return tunnels.find(isOfPlugin)?.name ?? null;
}

/**
 * Where packets of Services go, with any source: rules for an address of the node itself, as nodes with several interfaces have, are for what
 * its processes send from that address.
 */
export function routeOfServices(facts: NodeFacts, destination: Address): RouteResult {
  return keptWith(facts, `route to ${destination.text}`, () => routeOf(withoutOwnSources(facts), destination, {mark: 0, iif: 'lo'}));
}

const withoutOwnSources = once(({network, addresses}: NodeFacts): NetworkFacts => {
  const isOwn = ({from, isInverted}: PolicyRule): boolean =>
    !isInverted && from !== null && addresses.includes(from.text.replace(/\/(?:32|128)$/, ''));
  const left = (family: Family) => network.policyRules[family]?.filter(rule => !isOwn(rule)) ?? null;
  return {...network, policyRules: {IPv4: left('IPv4'), IPv6: left('IPv6')}};
});

/** By it the node sends packets to itself, whatever interface has the address. Where none is up, the flags of interfaces were not read. */
export function isLoopbackDown({links}: NetworkFacts): boolean {
  return links?.some(({isUp}) => isUp) === true && links.some(({name, isUp}) => name === 'lo' && !isUp);
}

/** The interfaces of pods that a route to a single pod of the node names. */
export const linksOfPods = once((facts: NodeFacts): ReadonlySet<string> => {
  const {network, primaryInterface} = facts;
  const isNamed = (route: Route): boolean => route.table === 'main' && isOfPod(facts, route);
  const named = families.flatMap(family => (network.routes[family] ?? []).filter(isNamed).flatMap(({hops}) => hops.map(({dev}) => dev)));
  return new Set(named.filter(dev => dev !== null && dev !== primaryInterface && podsBehind(network, dev)) as readonly string[]);
});

/** Whether packets for a pod of the node leave by the interface of the node's address, while pods here have interfaces of their own. */
export function leavesByUplink(facts: NodeFacts, route: RouteResult): boolean {
  return route.kind === 'unicast' && route.dev === facts.primaryInterface && route.gateway === null && hasLinksOfPods(facts);
}

const hasLinksOfPods = once(
  (facts: NodeFacts): boolean =>
    linksOfPods(facts).size > 0 || facts.network.links?.some(link => link.isUp && isLinkOfOnePod(facts, link)) === true,
);

/**
 * Whether the node asks for a pod of another node on the link of its own address, in none of whose networks the pod is, while pods here have
 * links of their own. Nodes that answer ARP for their pods do so on every one.
 */
export function asksUplinkFor(facts: NodeFacts, address: Address, route: RouteResult): boolean {
  const {network, primaryInterface: dev} = facts;
  return (
    leavesByUplink(facts, route) &&
    !isOnUplink(facts, address) &&
    route.kind === 'unicast' &&
    asksForAll(facts, route) &&
    ![dev, 'all'].some(name => sysctlNumber(network, `net.ipv4.conf.${name}.proxy_arp`) === 1)
  );
}

/** A link to another network namespace, which is no port of a bridge as those of containers are, and in no network of the node. */
function isLinkOfOnePod(facts: NodeFacts, {name, isPeerElsewhere, master}: Link): boolean {
  return isPeerElsewhere && master === null && !linksInNetworks(facts).has(name);
}

const linksInNetworks = once(
  ({onLink = []}: NodeFacts) => new Set(onLink.flatMap(({name, network}) => (/^fe80:|\/(?:32|128)$/.test(network) ? [] : name))),
);

/**
 * The way that a route of its own gives packets for a pod of the node: by a wire, or to a gateway behind one that is not the default one, while
 * pods here have interfaces of their own, or a wider route leads to such; null if it has none.
 */
export function ledOut(facts: NodeFacts, {family, value}: Pick<Address, 'family' | 'value'>, route: RouteResult): string | null {
  const {network, primaryInterface} = facts;
  if (route.kind !== 'unicast' || isDefaultWay(network, route, family)) return null;
  const {dev, gateway} = route;
  const hop = parseAddress(gateway ?? '');
  if (!isWire(facts, dev) || (hop === null && dev === primaryInterface) || (hop !== null && isPodHere(facts, hop))) return null;
  const routes = (network.routes[family] ?? []).filter(({to, kind}) => kind === 'unicast' && contains(to, {family, value}));
  const [single, wider] = partition(routes, ({to}) => to.prefix === bitsOf(family));
  const leadsIn = ({to, hops}: Route): boolean =>
    to.prefix > 0 && hops.some(one => one.dev !== null && one.dev !== primaryInterface && podsBehind(network, one.dev));
  if (!single.some(({hops}) => hops.some(one => one.dev === dev && one.gateway === gateway))) return null;
  return hasLinksOfPods(facts) || wider.some(leadsIn) ? `${gateway === null ? '' : `to ${gateway} `}by ${dev}` : null;
}

/** An interface to other machines, with a network of its own. */
function isWire(facts: NodeFacts, dev: string): boolean {
  const {network, primaryInterface} = facts;
  const isBridgeOfPods = network.links?.some(({master, isPeerElsewhere}) => isPeerElsewhere && master === dev);
  return dev === primaryInterface || (isOfMany(network, dev) && isBridgeOfPods !== true && linksInNetworks(facts).has(dev));
}

/** The default gateway to which the node sends packets for an address, while other pods have links of their own; null if it does not. */
export function gatewayInPlaceOfLink({network}: NodeFacts, destination: Address, query: RouteQuery): string | null {
  if (network.links?.some(({isPeerElsewhere, isUp}) => isPeerElsewhere && isUp) !== true) return null;
  const route = routeOf(network, destination, query);
  return route.kind === 'unicast' && isDefaultWay(network, route, destination.family, query) ? route.gateway : null;
}

/** The rule of policy routing without which something holds; null if it is no single one. */
export function ruleBehind(network: NetworkFacts, family: Family, holds: (without: NetworkFacts) => boolean): PolicyRule | null {
  const rules = network.policyRules[family] ?? [];
  const without = (left: PolicyRule): NetworkFacts => ({...network, policyRules: of(rules.filter(one => one !== left))});
  return rules.find(one => !isUsualRule(one) && holds(without(one))) ?? null;
}

/**
 * The first rule of policy routing of which it is not known whether a packet meets it, and that would lead it elsewhere; null if there is
 * none. What a VRF does is not followed.
 */
export function undecidedRule(network: NetworkFacts, destination: Address, query: RouteQuery): PolicyRule | null {
  const rules = network.policyRules[destination.family] ?? [];
  const isUnsure = ({users, tos, unevaluated}: PolicyRule): boolean =>
    users !== null || (tos !== null && query.tos === undefined) || unevaluated.some(name => name !== 'l3mdev');
  if (!rules.some(isUnsure) || routeOf(network, destination, query).kind !== 'unknown') return null;
  const sure = {...network, policyRules: of(rules.filter(rule => !isUnsure(rule)))};
  return routeOf(sure, destination, query).kind === 'unknown' ? null : (rules.find(isUnsure) ?? null);
}

/** What sends the packets, in words. */
export function routingCause({rule}: Pick<Astray, 'rule'>): string {
  return rule === null ? 'policy routing' : `the rule of policy routing "${policyRuleText(rule)}"`;
}

/** As `ip rule` prints it: `100: from 10.244.11.0/24 lookup 101`. */
function policyRuleText({priority, isInverted, from, to, mark, iif, tos, protocol, sourcePorts, ports, users, action}: PolicyRule): string {
  const hex = (value: number): string => `0x${value.toString(16)}`;
  const parts = [
    isInverted ? 'not' : '',
    `from ${from?.text ?? 'all'}`,
    to === null ? '' : `to ${to.text}`,
    mark === null ? '' : `fwmark ${hex(mark.value)}${mark.mask === 0xff_ff_ff_ff ? '' : `/${hex(mark.mask)}`}`,
    tos === null ? '' : `tos ${hex(tos)}`,
    iif === null ? '' : `iif ${iif}`,
    users === null ? '' : `uidrange ${users.join('-')}`,
    protocol === null ? '' : `ipproto ${protocol}`,
    ...Object.entries({sport: sourcePorts, dport: ports}).map(([name, range]) =>
      range === null ? '' : `${name} ${[...new Set(range)].join('-')}`,
    ),
    action.kind === 'lookup' ? `lookup ${action.table}` : action.kind,
    action.kind === 'lookup' && action.suppressedPrefix !== null ? `suppress_prefixlength ${action.suppressedPrefix}` : '',
    action.kind === 'lookup' && action.suppressedGroup !== undefined ? `suppress_ifgroup ${action.suppressedGroup}` : '',
  ];
  return `${priority}: ${parts.filter(part => part !== '').join(' ')}`;
}

/** A client outside of all networks that the node has routes to, the default one aside. */
const outside = ['198.51.100.77', '203.0.113.77', '192.0.2.77', '2001:db8:ffff::77'].flatMap(text => parseAddress(text) ?? []);

export function outsideOf(family: Family): readonly Address[] {
  return outside.filter(address => address.family === family);
}

/** Whether the kernel does not take an address of an interface for its own: table local, which has that of the loopback, lacks that of the node. */
export function isLocalRouteMissing({hostIPs, addresses, allAddresses, network}: NodeFacts, address: Address): boolean {
  if (!allAddresses || !addresses.includes(address.text)) return false;
  const own = (network.routes[address.family] ?? []).filter(({kind}) => kind === 'local');
  const isRead = own.some(({to}) => /^(?:127\.0\.0\.|::1)/.test(to.text));
  return isRead && hostIPs.includes(address.text) && !own.some(({to}) => contains(to, address));
}

/**
 * The next hop to an address, or one of several, on the link of the node's own one or in place of the Node that a wider route leads to, if no
 * Node has its address while other next hops are Nodes; null if there is none. Where all are routers, or other addresses of nodes, none is
 * strange. Nor is that of a default route.
 */
export function strangeHop(
  facts: NodeFacts,
  {address, node}: {readonly address: Address; readonly node: string},
  {isOfNode, nodeAt}: {readonly isOfNode: (address: string) => boolean; readonly nodeAt: (address: string) => string | null},
): {readonly hop: string; readonly isOneOfSeveral: boolean} | null {
  const {network} = facts;
  const route = routeOfServices(facts, address);
  const gateways = route.kind === 'unicast' ? (route.gateways ?? [route.gateway ?? '']) : [];
  const {ofDefault, ofOthers} = gatewaysOf(network)[address.family];
  const isInPlace = (hop: Address): boolean =>
    gateways.length === 1 &&
    !hop.text.startsWith('fe80:') &&
    !isPodHere(facts, hop) &&
    nodesBehind(network, address, nodeAt).includes(node);
  const isStrange = (hop: Address | null): boolean => hop !== null && (isOnUplink(facts, hop) || isInPlace(hop));
  const hop = gateways.find(one => !isOfNode(one) && !ofDefault.has(one) && isStrange(parseAddress(one)));
  return hop !== undefined && ofOthers.some(isOfNode) ? {hop, isOneOfSeveral: gateways.length > 1} : null;
}

const gatewaysOf = once(({routes}: NetworkFacts) => {
  const of = (family: Family) => {
    const [ofDefault, others] = partition(routes[family] ?? [], ({to}) => to.prefix === 0);
    const hopsOf = (all: readonly Route[]): ReadonlySet<string> =>
      new Set(all.flatMap(({hops}) => hops.flatMap(({gateway}) => gateway ?? [])));
    return {ofDefault: hopsOf(ofDefault), ofOthers: [...hopsOf(others)]};
  };
  return {IPv4: of('IPv4'), IPv6: of('IPv6')};
});

/** Whether an address is in the network of the interface of the node's own one. */
export function isOnUplink(facts: NodeFacts, address: Address | null): boolean {
  const dev = facts.primaryInterface;
  return address !== null && dev !== null && !address.text.startsWith('fe80:') && isHome(facts, dev, address);
}

/** No address, as a process has that did not choose a source. */
const nowhere = {IPv4: parseAddress('0.0.0.0'), IPv6: parseAddress('::')};

/** Where packets go whose source the kernel chooses by the route. */
export function routeOfProcesses(network: NetworkFacts, address: Address): RouteResult {
  const source = nowhere[address.family];
  return source === null ? unknownRoute : routeOf(network, address, {mark: 0, iif: 'lo', source});
}

/**
 * Whether processes of the node get no connection to an address: the kernel finds no route to it. False if that is not known, as where the
 * list of routes lacks even those of the node's own addresses.
 */
export function isUnroutedHere(network: NetworkFacts, address: Address): boolean {
  const route = routeOfProcesses(network, address);
  if (route.kind !== 'unreachable') return false;
  return network.routes[address.family]?.some(({kind, to}) => kind === 'local' || (kind !== 'unicast' && contains(to, address))) === true;
}

/** Whether the kernel drops what arrives on an interface of IPv4 that the way back to its source does not lead through. */
export function isReversePathStrict(network: NetworkFacts, dev: string): boolean {
  const values = ['all', dev].map(name => sysctlNumber(network, `net.ipv4.conf.${name}.rp_filter`));
  return !values.includes(null) && Math.max(...values.map(Number)) === 1;
}

/** Whether an interface has an address in the network that an address is of. */
function isHome(facts: NodeFacts, dev: string, address: Address): boolean {
  return networksOnLink(facts).some(({name, cidr}) => name === dev && contains(cidr, address));
}

/** The networks of interfaces, where they were read. */
export const networksOnLink = once(({onLink = []}: NodeFacts) =>
  onLink.flatMap(({name, network}) => {
    const cidr = parseCidr(network);
    return cidr === null ? [] : [{name, cidr}];
  }),
);

/**
 * The interface by which the answer to a packet leaves, where the kernel drops the packet for it: strict reverse path filtering. Null if it
 * does not, or if that is not known. Where the network has the destination behind that interface, the packet arrives by it.
 */
export function droppedOnArrival(
  facts: NodeFacts,
  {source, destination, arrivedFor, mark, dev}: {source: Address; destination: Address; arrivedFor: Address; mark: number; dev: string},
): string | null {
  const {network} = facts;
  if (source.family !== 'IPv4' || !isReversePathStrict(network, dev)) return null;
  // The kernel tests the way of an answer that arrives by the interface by which the packet leaves (`fib_validate_source`).
  const way = routeOf(network, destination, {source, mark, iif: dev});
  const iif = way.kind === 'unicast' ? way.dev : 'lo';
  // Whether the mark counts, src_valid_mark says, which is not read.
  const [back, marked] = [0, mark].map(value => routeOf(network, source, {source: destination, mark: value, iif}));
  if (back === undefined || marked === undefined || back.kind !== 'unicast' || !isSame(back, marked) || back.dev === dev) return null;
  return isHome(facts, back.dev, arrivedFor) ? null : back.dev;
}

/** A way that policy routing gives a packet: a network has to know it that the source is not of. */
export interface Detour {
  readonly text: string;
  /** Whether the network behind the interface knows a source. */
  readonly isKnown: (source: Address) => boolean;
}

/**
 * The interface by which a client outside arrives: the way back to it from the address that it asks, unless another interface has that
 * address. Null if it is unknown, and for what the usual rules do not lead to by the default route: a pod's packets come from the pod,
 * whatever way the node would answer.
 */
export function arrivalOf(facts: NodeFacts, client: Address, asked: Address): string | null {
  const {network} = facts;
  const usual = withUsualRules(network);
  const way = routeOf(usual, client);
  if (way.kind !== 'unicast' || !isDefaultWay(usual, way, client.family)) return null;
  const home = homeLink(facts, asked);
  const wayBack = (iif?: string): RouteResult => routeOf(network, client, {source: asked, mark: 0, iif});
  // What asks an address that no interface has goes on to pods, and the answers are not the node's own: where a rule asks for their
  // interface, the way of most is that of the node.
  const ofPods = home === null ? wayBack() : null;
  const route = ofPods?.kind === 'unicast' ? ofPods : wayBack('lo');
  return route.kind === 'unicast' && (home === null || home === route.dev) ? route.dev : null;
}

/** Interfaces with a network of their own by whose gateways a default route leads, of any table. */
export const uplinksOf = once((facts: NodeFacts): Readonly<Record<Family, readonly string[]>> => {
  const of = (family: Family) =>
    (facts.network.routes[family] ?? [])
      .filter(({to, kind}) => to.prefix === 0 && kind === 'unicast')
      .flatMap(({hops}) => hops.flatMap(({dev, gateway}) => (dev !== null && gateway !== null && isWire(facts, dev) ? [dev] : [])));
  return {IPv4: [...new Set(of('IPv4'))], IPv6: [...new Set(of('IPv6'))]};
});

/** Other interfaces by which a client outside may come, where none has the network of the address that it asks. */
export function otherArrivals(facts: NodeFacts, client: Address, asked: Address): readonly string[] {
  const uplinks = uplinksOf(facts)[client.family];
  if (uplinks.length < 2 || homeLink(facts, asked) !== null) return [];
  const usual = arrivalOf(facts, client, asked);
  return usual === null ? [] : uplinks.filter(dev => dev !== usual);
}

/**
 * The gateway on another link by which a node sends what is for an address on a node of its own network, which that node does not have, while its
 * routes lead straight back: it is a router, or nobody. Null if there is none.
 */
export function strayGateway(facts: NodeFacts, there: NodeFacts, address: Address): string | null {
  const {network, primaryInterface, hostIPs} = facts;
  const route = routeOfServices(facts, address);
  if (route.kind !== 'unicast' || route.gateway === null || route.dev === primaryInterface || !isOfMany(network, route.dev)) return null;
  const isNear = !route.gateway.startsWith('fe80:') && there.hostIPs.some(text => isOnUplink(facts, parseAddress(text)));
  if (!isNear || !there.allAddresses || there.addresses.includes(route.gateway) || isDefaultWay(network, route, address.family))
    return null;
  const leadsBack = ({to, hops}: Route): boolean => to.prefix > 0 && hops.some(({gateway}) => hostIPs.includes(gateway ?? ''));
  return (there.network.routes[address.family] ?? []).some(leadsBack) ? `${route.gateway} by ${route.dev}` : null;
}

/** The interface by which table main leads to an address, if not by its default route; null if it does not, or if that is unknown. */
export function podLink({network}: NodeFacts, address: Address): string | null {
  const usual = withUsualRules(network);
  const way = routeOf(usual, address);
  return way.kind === 'unicast' && !isDefaultWay(usual, way, address.family) ? way.dev : null;
}

/** The interface that has an address, or whose network holds it. */
export function homeLink(facts: NodeFacts, asked: Address): string | null {
  const isOwn = ({name, network}: {readonly name: string; readonly network: string}): boolean =>
    name !== 'lo' && !/\/(?:32|128)$/.test(network) && isHome(facts, name, asked);
  return (facts.onLink ?? []).find(isOwn)?.name ?? null;
}

/**
 * The way of a reply by another interface than the one that has the address that the client asked; an address of a Service that no interface
 * has is taken for one of the interface of the node's address.
 */
export function otherUplink(facts: NodeFacts, client: Address, {asked, query}: {asked: Address; query: RouteQuery}): Detour | null {
  const {network, primaryInterface} = facts;
  const route = routeOf(network, client, query);
  if (route.kind !== 'unicast' || isHome(facts, route.dev, asked)) return null;
  const own = homeLink(facts, asked);
  const home = own ?? primaryInterface;
  if (home === null || home === route.dev) return null;
  if (!isDefaultWay(network, route, client.family, query) && (route.gateway === null || own === null)) return null;
  const gateway = route.gateway === null ? '' : ` to the gateway ${route.gateway}`;
  const whose = own === null ? `while the node's own address is one of ${home}` : `which is an address of ${home}`;
  return {text: `by ${route.dev}${gateway}, while the client asks ${asked.text}, ${whose}`, isKnown: () => false};
}

/** The detour by another interface than the one of table main; null if a packet takes none, or if that is not known. */
export function detourOf(facts: NodeFacts, destination: Address, query: RouteQuery): Detour | null {
  const {network} = facts;
  if (!isPolicyRouted(network, destination.family)) return null;
  const usual = routeOf(withUsualRules(network), destination, query);
  const route = routeOf(network, destination, query);
  if (usual.kind !== 'unicast' || route.kind !== 'unicast' || route.dev === usual.dev) return null;
  // A tunnel, as that of an encrypted network of pods, takes them in another way.
  if (route.gateway === null && (usual.gateway === null || !asksForAll(facts, route))) return null;
  return {
    text: `by ${route.dev}${route.gateway === null ? '' : ` to the gateway ${route.gateway}`}, while ${usual.dev} leads to ${destination.text}`,
    // A network that knows the source may not know a pod behind another interface of the node.
    isKnown: source => route.gateway !== null && usual.dev === facts.primaryInterface && isHome(facts, route.dev, source),
  };
}

/**
 * Where the node sends packets for an address of another node that do not leave for it, or for a pod of its own that leave; null if they take
 * a way that may be right, or if that is not known.
 */
export function misledTo(
  facts: NodeFacts,
  {address, node, isPod}: {readonly address: Address; readonly node: string; readonly isPod: boolean},
  nodeAt: (address: string) => string | null,
): string | null {
  const {network, name, primaryInterface} = facts;
  const route = routeOfServices(facts, address);
  if (!('dev' in route)) return null;
  const {dev, gateway} = route;
  if (route.kind !== 'unicast') return node !== name || isPod ? 'the node itself, which has the address too' : null;
  const hop = parseAddress(gateway ?? '');
  if (node !== name && hop !== null && dev !== primaryInterface && isPodHere(facts, hop)) return `${hop.text}, a pod of this node`;
  const other = hop === null ? null : nodeAt(hop.text);
  if (node === name || (other !== null && other !== node && nodesBehind(network, address, nodeAt).includes(node)))
    return other === null || other === name ? null : `${gateway}, the address of ${other}`;
  if ((gateway ?? route.gateways) != null) return null;
  const link = network.links?.find(one => one.name === dev);
  if (dev !== primaryInterface && link !== undefined && isLinkOfOnePod(facts, link)) return `${dev}, the interface of a pod of this node`;
  if (leadsToNoNode(facts, dev)) return `${dev}, which leads to no other node`;
  // Nodes answer for any address of theirs by ARP, and for those of the interface that is asked by IPv6.
  if (address.family === 'IPv6' && isOnUplink(facts, address) && !isHome(facts, dev, address) && asksForAll(facts, route))
    return `${dev}, where nobody answers for an address in the network of ${primaryInterface}`;
  // Another table that names them may have its reasons.
  const isOfMain = network.policyRules[address.family]?.every(isUsualRule) === true;
  return isOfMain && asksForAll(facts, route) && nodesBehind(network, address, nodeAt)[0] === node
    ? `${dev}, where a route of its own finds nobody, while another one leads to ${node}`
    : null;
}

/**
 * Interfaces by which routes lead to more pods than can be behind them, with the interfaces of pods that may have to be ports of them: that of a
 * single pod with routes of their own to several; or a bridge with too few ports, while those of pods are ports of none.
 */
export function crowdedLinks(facts: NodeFacts, family: Family, pods: () => Iterable<string>) {
  const {network, primaryInterface} = facts;
  const [links, routes] = [network.links ?? [], (network.routes[family] ?? []).filter(({kind}) => kind === 'unicast')];
  const single = new Set(routes.flatMap(({to}) => (to.prefix === bitsOf(family) ? [to.text.replace(/\/.*/, '')] : [])));
  const routed = new Set(routes.flatMap(({to, hops}) => (to.text.startsWith('fe80:') ? [] : hops.map(({dev}) => dev))));
  const ofOnePod = links.filter(link => link.kind === 'veth' && isLinkOfOnePod(facts, link) && link.name !== primaryInterface);
  const loose = ofOnePod.flatMap(({name, isUp}) => (isUp && !routed.has(name) ? [name] : []));
  if (ofOnePod.length === 0) return [];
  const led = [...pods()].flatMap(text => {
    const address = parseAddress(text);
    const route = address?.family === family ? routeOfServices(facts, address) : unknownRoute;
    return address !== null && route.kind === 'unicast' ? [{dev: route.dev, text: address.text}] : [];
  });
  return [...Map.groupBy(led, ({dev}) => dev)].flatMap(([dev, own]) => {
    const addresses = own.map(({text}) => text);
    if (ofOnePod.some(({name}) => name === dev)) {
      const alone = addresses.filter(text => single.has(text));
      return alone.length > 1 ? [{dev, addresses: alone, loose: []}] : [];
    }
    const ports = links.find(({name}) => name === dev)?.kind === 'bridge' ? links.filter(({master}) => master === dev).length : Infinity;
    return loose.length > 0 && addresses.length > ports ? [{dev, addresses, loose}] : [];
  });
}

/** The nodes whose addresses are gateways of routes to an address, whichever route the kernel takes. */
export function nodesBehind(
  {routes}: NetworkFacts,
  address: Pick<Address, 'family' | 'value'>,
  nodeAt: (address: string) => string | null,
): readonly string[] {
  return (routes[address.family] ?? []).flatMap(({to, hops, table}) => {
    const gateway = table === 'main' && to.prefix > 0 && contains(to, address) ? hops[0]?.gateway : null;
    return gateway == null ? [] : (nodeAt(gateway) ?? []);
  });
}

/** Whether an address is that of a pod of the node. */
export function isPodHere({podCIDRs, podAddresses}: NodeFacts, address: Address): boolean {
  return [...podCIDRs, ...(podAddresses?.(address.family) ?? [])].some(text => {
    const cidr = parseCidr(text);
    return cidr === null ? text === address.text : contains(cidr, address);
  });
}

/**
 * The loopback, a device that leads nowhere, or a bridge that has containers of the node and nothing else on it, such as docker0. Where the node is a
 * container itself, its uplinks look like the links of such.
 */
export function leadsToNoNode({network, primaryInterface}: NodeFacts, dev: string | null): boolean {
  const {links} = network;
  const kind = links?.find(({name}) => name === dev)?.kind;
  if (dev === primaryInterface || kind !== 'bridge') return dev === 'lo' || kind === 'dummy' || kind === 'ifb';
  const ports = links?.filter(({master}) => master === dev) ?? [];
  const isContainer = links?.some(({name, isPeerElsewhere}) => name === primaryInterface && isPeerElsewhere) !== false;
  return ports.length === 0 || (!isContainer && ports.every(({isPeerElsewhere}) => isPeerElsewhere));
}

/** Whether a node has routes for some sources, or other rules than those of nodes without policy routing; false if rules were not read. */
export function isPolicyRouted(network: NetworkFacts, family: Family): boolean {
  return network.policyRules[family]?.every(isUsualRule) === false || hasOwnSources(network);
}

const hasOwnSources = once(({routes}: NetworkFacts): boolean => routes.IPv6?.some(({from}) => from !== undefined) === true);

/** A rule that nodes without policy routing have. */
export function isUsualRule({action}: PolicyRule): boolean {
  return action.kind === 'lookup' && /^(?:local|main|default|25[345])$/.test(action.table);
}

/** Whether a packet for an address goes to a gateway that sends it on; null if that is not known, as behind the default one. */
export function isSentOn(facts: NodeFacts, destination: Address, query: RouteQuery): boolean | null {
  const {network, primaryInterface} = facts;
  const route = routeOf(network, destination, query);
  if (route.kind !== 'unicast') return null;
  const {dev, gateway} = route;
  const isNear = gateway === null ? dev === primaryInterface || podsBehind(network, dev) : gateway === destination.text;
  return isNear ? false : gateway === null || isDefaultWay(network, route, destination.family, query) ? null : true;
}

/** Whether an interface is the link of a pod, or the bridge of several. */
function podsBehind({links}: NetworkFacts, dev: string): boolean {
  return links?.some(({name, master, isPeerElsewhere}) => isPeerElsewhere && (name === dev || master === dev)) === true;
}

/** The interface that leads to an address by the routes of table main; null if it is unknown. */
export function usualDevice({network}: NodeFacts, address: Address): string | null {
  const route = routeOf(withUsualRules(network), address, {mark: 0});
  return route.kind === 'unicast' ? route.dev : null;
}

type Unicast = Way<'unicast'>;

/** Whether a route is that of addresses outside. */
function isDefaultWay(network: NetworkFacts, route: Unicast, family: Family, query: RouteQuery = {}): boolean {
  const [anywhere] = outsideOf(family);
  return anywhere !== undefined && isSame(route, routeOf(network, anywhere, query));
}

/** Whether a route leaves the network that the usual way finds an address in. */
function isOffLink(facts: NodeFacts, address: Address, usual: Unicast, route: Unicast): boolean {
  return usual.gateway === null && isHome(facts, usual.dev, address) && !isHome(facts, route.dev, address);
}

/** Whether the table that a rule leads to has nothing for an address but a default route. */
function isByDefaultOf({routes}: NetworkFacts, rule: PolicyRule | null, address: Address): boolean {
  const table = rule?.action.kind === 'lookup' ? rule.action.table : null;
  const own = (routes[address.family] ?? []).filter(route => route.table === table && contains(route.to, address));
  return own.length > 0 && own.every(({to}) => to.prefix === 0);
}

/** Whether the table that a rule leads to has a route to a single pod of the node. */
function leadsToPodsHere(facts: NodeFacts, rule: PolicyRule | null, family: Family): boolean {
  const table = rule?.action.kind === 'lookup' ? rule.action.table : null;
  return (facts.network.routes[family] ?? []).some(route => route.table === table && isOfPod(facts, route));
}

function isOfPod(facts: NodeFacts, {to: {family, base, prefix, text}}: Route): boolean {
  return prefix === bitsOf(family) && isPodHere(facts, {family, value: base, text: text.replace(/\/.*/, '')});
}

/** Interfaces to a single other end, as those of WireGuard, need none. */
function asksForAll({network}: NodeFacts, {dev, gateway, gateways}: Unicast): boolean {
  return (gateway ?? gateways) == null && isOfMany(network, dev);
}

/** Whether an interface leads to many others, and to each by its own address; false for tunnels. */
export function isOfMany({links}: NetworkFacts, dev: string): boolean {
  return /^(?:|veth|vlan|bond|bridge|macvlan)$/.test(links?.find(({name}) => name === dev)?.kind ?? '-');
}

/** By the link of a pod or the bridge of several, by a tunnel, or by a gateway that is not the default one. */
function leadsToPods({network, primaryInterface}: NodeFacts, family: Family, {dev, gateway}: Unicast): boolean {
  const links = network.links ?? [];
  if (dev !== primaryInterface && podsBehind(network, dev)) return true;
  if (/^(?:vxlan|geneve|ipip|sit|ip6tnl)$/.test(links.find(({name}) => name === dev)?.kind ?? '')) return true;
  const [anywhere] = outsideOf(family);
  const usual = anywhere === undefined ? unknownRoute : routeOf(withUsualRules(network), anywhere, {mark: 0});
  return gateway !== null && usual.kind === 'unicast' && usual.gateway !== null && usual.gateway !== gateway;
}

const withUsualRules = once((network: NetworkFacts): NetworkFacts => {
  const {IPv4, IPv6} = network.routes;
  return {...network, policyRules: of(usualRules), routes: {IPv4, IPv6: IPv6?.filter(({from}) => from === undefined) ?? null}};
});

function of(rules: readonly PolicyRule[]): NetworkFacts['policyRules'] {
  return Object.fromEntries(families.map(family => [family, rules])) as Record<Family, readonly PolicyRule[]>;
}
