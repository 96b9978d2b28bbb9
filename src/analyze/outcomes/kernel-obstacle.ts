import {arrivesBy, routeQuery} from './environment.ts';
import {isLoopback} from '../../expect/node-context.ts';
import type {Address, Family} from '../../model/address.ts';
import {
  forwardingSwitch,
  isIPv6Off,
  type NetworkFacts,
  type NodeFacts,
  routeOf,
  type RouteQuery,
  routesLoopback,
  sysctlNumber,
  trackedConnections,
} from '../../model/node/node-facts.ts';
import {
  type Astray,
  arrivalOf,
  asksUplinkFor,
  detourOf,
  downPodLinks,
  downWay,
  droppedOnArrival,
  gatewayInPlaceOfLink,
  isLocalRouteMissing,
  isLoopbackDown,
  isPodHere,
  isUnroutedHere,
  leavesByUplink,
  ledOut,
  otherUplink,
  podLink,
  routedAstray,
  routingCause,
  ruleBehind,
  undecidedRule,
} from '../../model/node/policy-routing.ts';
import {someOf} from '../../model/text.ts';
import {askAddress, type Environment, type Packet, portQuestion} from '../../trace/walked-packet.ts';
import {alikePorts} from '../../trace/sender-space.ts';

/**
 * Why the kernel does not send a packet on although all rules accept it; null if it does, or if that was not seen. Only for
 * `packet` and `trace`: checks report such a fact once for the node.
 */
export function kernelObstacle(facts: NodeFacts): NonNullable<Environment['obstacle']> {
  const {network} = facts;
  const forwarding = forwardingObstacle(facts);
  const isOff = isIPv6Off(facts);
  const tracked = trackedConnections(network);
  const asAstray: NonNullable<Environment['obstacle']> = (packet, environment) => {
    const astray = routedAstray(facts, packet.destination, routeQuery(packet));
    if (astray === null) return null;
    askSource(packet, environment);
    return astrayText(astray, packet.destination);
  };
  return (packet, environment) => {
    const {family, origin, destination} = packet;
    if (family === 'IPv6' && isOff) return 'IPv6 is switched off on this node';
    if (isLocalRouteMissing(facts, destination))
      return `table local has no route to ${destination.text}, the address of the node, so the kernel does not take it for its own`;
    if (tracked !== null && tracked.count >= tracked.max && !packet.untracked && packet.connection === undefined)
      return `the table of tracked connections is full (nf_conntrack_max is ${tracked.max}), and the kernel drops packets of new ones`;
    if (environment.isLocal(destination) === true)
      return origin === 'node' && isLoopbackDown(network)
        ? 'lo is down: the kernel drops what the node sends to itself'
        : asAstray(packet, environment);
    if (origin !== 'node') {
      const reason = forwarding(packet, environment);
      if (reason !== null || packet.virtual !== undefined) return reason;
    } else {
      const reason = loopbackObstacle(network, packet);
      if (reason !== null) return reason;
    }
    askRulePorts(network, packet, environment);
    return wayObstacle(facts, packet, environment) ?? asAstray(packet, environment);
  };
}

/** The node's own packets from 127.0.0.0/8 leave by an interface that is told to route them. IPv6 has no such switch. */
function loopbackObstacle(network: NetworkFacts, packet: Packet): string | null {
  if (packet.family !== 'IPv4' || !isLoopback(packet.source.text)) return null;
  const route = routeOf(network, packet.destination, routeQuery(packet));
  const dev = 'dev' in route ? route.dev : null;
  if (sysctlNumber(network, 'net.ipv4.conf.all.route_localnet') !== 0 || routesLoopback(network, dev) === true) return null;
  const isOff = dev !== null && routesLoopback(network, dev) === false;
  const own = dev === null ? '' : isOff ? `, and so is that of ${dev}` : `; that of ${dev} was not read`;
  return `the kernel sends nothing from a loopback address to another node or pod (net.ipv4.conf.all.route_localnet is 0${own})`;
}

/** Why no interface takes a packet to its destination. */
function wayObstacle(facts: NodeFacts, packet: Packet, environment: Environment): string | null {
  const {network} = facts;
  const {destination} = packet;
  const query = routeQuery(packet);
  const route = routeOf(network, destination, query);
  if (route.kind === 'unreachable') return `the node has no route to ${destination.text}`;
  if (route.kind === 'local' && packet.connection?.direction === 'reply' && environment.isLocal(destination) === false)
    return `a route takes ${destination.text} for an address of the node (${route.dev}), which keeps the reply`;
  const way = downWay(network, destination, query);
  if (way?.isOneOfSeveral === false && way.isSilent !== true) return `${way.dev}, which leads to ${destination.text}, has no carrier`;
  const down = isPodHere(facts, destination) ? downPodLinks(facts, [destination]) : [];
  const gateway = down.length === 0 ? null : gatewayInPlaceOfLink(facts, destination, query);
  if (gateway !== null)
    return `the node sends what is for ${destination.text}, a pod of its own, to the default gateway ${gateway}, while an interface of pods is down (${someOf(down)})`;
  return null;
}

/** Other senders may have other routes. */
function askSource(packet: Packet, environment: Environment): void {
  askAddress([[packet.source.value, packet.source.value]], 'source', packet, environment);
  environment.sender?.commitAdded();
}

/** A process asks for the route before its packets meet any rule; DNAT routes them again. What leads there does not matter yet. */
export function ownObstacle(facts: NodeFacts): NonNullable<Environment['ownObstacle']> {
  return ({destination}) =>
    isUnroutedHere(facts.network, destination)
      ? `the node has no route to ${destination.text}, so the kernel refuses the connection before any rule is asked`
      : null;
}

/** Strict reverse path filtering, and answers that policy routing sends by another uplink than the one that packets came by. */
export function reversePath(facts: NodeFacts): Required<Pick<Environment, 'arrivesBy' | 'arrivalObstacle' | 'doubtedWay'>> {
  return {
    arrivesBy: (packet, environment) => {
      const known = arrivesBy(facts, packet, environment);
      const dev = known ?? arrivalOf(facts, packet.source, packet.destination) ?? podLink(facts, packet.source);
      if (known === null && dev !== null) askSource(packet, environment);
      return dev;
    },
    arrivalObstacle: (packet, environment) => {
      const {source, destination, original, mark, inInterface: dev} = packet;
      if (dev === null || dev === 'lo' || environment.isLocal(source) !== false) return null;
      const other = droppedOnArrival(facts, {source, destination, arrivedFor: original?.destination ?? destination, mark, dev});
      if (other === null) return null;
      askSource(packet, environment);
      return `rp_filter of ${dev} is strict (1), and the way back to ${source.text} leads by ${other}: the kernel drops what arrives on ${dev}`;
    },
    doubtedWay: (packet, environment) => {
      const {destination, connection} = packet;
      const query = routeQuery(packet);
      const detour = detourFor(facts, packet, query, environment);
      if (detour !== null) {
        askSource(packet, environment);
        return detour;
      }
      const rule = undecidedRule(facts.network, destination, query);
      const word = connection?.direction === 'reply' ? 'reply' : 'packet';
      const reason = rule === null ? doubtOf(facts, destination, query) : `whether the ${word} meets ${routingCause({rule})} is not known`;
      return reason === null ? null : {reason};
    },
  };
}

/** The detour that policy routing gives a packet, or a reply, which a client expects from the address that it asked. */
function detourFor(facts: NodeFacts, {destination, connection}: Packet, query: RouteQuery, {isLocal}: Environment) {
  const isReply = connection?.direction === 'reply';
  const asked = isReply && (connection.rewritten || isLocal(connection.first.destination) === true) ? connection.first.destination : null;
  const detour = detourOf(facts, destination, query) ?? (asked === null ? null : otherUplink(facts, destination, {asked, query}));
  if (detour === null) return null;
  const what = isReply ? 'reply' : 'packet';
  return {isKnown: detour.isKnown, reason: `the node sends the ${what} ${detour.text}: whether the network takes it there is not known`};
}

/** Why it is not known whether a packet gets to an address, without policy routing. */
function doubtOf(facts: NodeFacts, destination: Address, query: RouteQuery): string | null {
  const way = downWay(facts.network, destination, query);
  if (way?.isSilent === true) return `${way.dev} has ARP off: by it the kernel finds only neighbors that it has permanent entries for`;
  if (way !== null) return `${way.dev}, one of the next hops to ${destination.text}, has no carrier: what the kernel sends there is lost`;
  const route = routeOf(facts.network, destination, query);
  if (!isPodHere(facts, destination))
    return asksUplinkFor(facts, destination, route)
      ? `the node sends what is for ${destination.text} by ${facts.primaryInterface} without a next hop: whether anybody answers for it there is not known`
      : null;
  const gateway = gatewayInPlaceOfLink(facts, destination, query);
  const usual = leavesByUplink(facts, route) ? `by ${facts.primaryInterface}` : ledOut(facts, destination, route);
  const where = gateway === null ? usual : `to the default gateway ${gateway}`;
  if (where === null) return null;
  return `the node sends what is for ${destination.text}, a pod of its own, ${where}: whether the network brings it back is not known`;
}

/** Notes the ports for which rules of policy routing have the same answer. */
function askRulePorts(network: NetworkFacts, packet: Packet, environment: Environment): void {
  for (const {sourcePorts, ports} of network.policyRules[packet.family] ?? [])
    for (const [side, range, value] of [
      ['source', sourcePorts, packet.sourcePort],
      ['destination', ports, packet.port],
    ] as const) {
      const ask = range === null || value === undefined ? null : portQuestion(side, packet, environment);
      if (range === null || value === undefined || ask === null) continue;
      ask(alikePorts([[BigInt(range[0]), BigInt(range[1])]], value));
      environment.sender?.commitAdded();
    }
}

function astrayText(astray: Astray, {text}: Address): string {
  return `${routingCause(astray)} sends the packet ${astray.way}, while ${astray.instead} leads to ${text}`;
}

/**
 * Where policy routing sends packets for the mark or type of service that a rule of another program gave them: away, or where it is not known
 * that they arrive; left out where it asks for none. What it does to packets without a mark, or with kube-proxy's, is a fact of the node.
 */
export function markedWays(facts: NodeFacts, family: Family, ownMark: number): Pick<Environment, 'obstacle' | 'doubtedWay'> {
  const {network} = facts;
  const asked = network.policyRules[family]?.some(({mark, tos}) => tos !== null || (mark !== null && (mark.mask & ~ownMark) !== 0));
  if (asked !== true) return {};
  const ofMark = <T>(packet: Packet, find: (query: RouteQuery) => T | null): T | null => {
    const {mark, tos} = packet;
    if ((mark & ~ownMark) === 0 && tos === undefined) return null;
    const query = routeQuery(packet);
    const found = find(query);
    if (found === null) return null;
    const {tos: _, ...usual} = query;
    return find({...usual, mark: mark & ownMark}) === null ? found : null;
  };
  return {
    obstacle: packet =>
      ofMark(packet, query => {
        const {destination} = packet;
        const isRefused = (given: NetworkFacts): boolean => routeOf(given, destination, query).kind === 'unreachable';
        if (isRefused(network))
          return `${routingCause({rule: ruleBehind(network, family, without => !isRefused(without))})} leaves no route to ${destination.text}`;
        const astray = routedAstray(facts, destination, query);
        return astray === null ? null : astrayText(astray, destination);
      }),
    doubtedWay: (packet, environment) => ofMark(packet, query => detourFor(facts, packet, query, environment)),
  };
}

/** The switch by which a node forwards no packets of a family, whatever the interface; null if it forwards some, or if that was not seen. */
export function forwardingOff({network}: NodeFacts, family: Family): string | null {
  const all = forwardingSwitch[family];
  const isOnSomewhere = family === 'IPv4' && switchesOf(network).some(name => sysctlNumber(network, name) === 1);
  return sysctlNumber(network, all) === 0 && !isOnSomewhere ? all : null;
}

function switchesOf({sysctls}: NetworkFacts): readonly string[] {
  return [...(sysctls?.keys() ?? [])].filter(name => /^net\.ipv4\.conf\..+\.forwarding$/.test(name));
}

/** The part of `kernelObstacle` about packets that come from elsewhere and go elsewhere. */
function forwardingObstacle(facts: NodeFacts): NonNullable<Environment['obstacle']> {
  const {network} = facts;
  const isMixed = new Set(switchesOf(network).map(name => sysctlNumber(network, name))).size > 1;
  return (packet, environment) => {
    const {family, destination, inInterface, virtual} = packet;
    const all = forwardingSwitch[family];
    // IPVS sends packets on by itself. The kernel forwards the replies, which arrive from where the endpoint is.
    const dev = virtual === undefined ? inInterface : (environment.interfaceOf?.(destination) ?? null);
    if (isMixed && virtual === undefined) askSource(packet, environment);
    // IPv4 has a switch for each interface, which the one for all writes to.
    const own = family === 'IPv4' && dev !== null ? `net.ipv4.conf.${dev}.forwarding` : null;
    const value = own === null ? null : sysctlNumber(network, own);
    if ((value ?? sysctlNumber(network, all)) !== 0) return null;
    return `the node forwards no ${virtual === undefined ? 'such packets' : 'replies'} (${value === null ? all : own} is 0)`;
  };
}
