import {heldIn, once} from '../../model/once.ts';
import {internalIPs} from '../../expect/api-index.ts';
import {podCIDRsOf} from '../../expect/node-context.ts';
import {type Address, type Cidr, type Family, formatAddress, parseAddress, unidentifiedRanges} from '../../model/address.ts';
import {intersect} from '../../model/intervals.ts';
import {groupBy} from '../../model/lists.ts';
import {addressesIn} from '../../parse/nftables/address-list.ts';
import {hostIP, type PolicyRule, routeOf, type RouteQuery, type RouteResult} from '../../model/node/node-facts.ts';
import {
  type Astray,
  downPodLinks,
  downWay,
  hasLossyWays,
  isPolicyRouted,
  isUnroutedHere,
  type LossyWay,
  outsideOf,
  routedAstray,
  routingCause,
  usualDevice,
} from '../../model/node/policy-routing.ts';
import {hasExternalEntry} from '../../model/service-port.ts';
import {commandLine, joinedCommand, someOf} from '../../model/text.ts';
import type {Observation} from '../../model/finding.ts';
import type {NodeCheckContext} from '../check-types.ts';
import {run} from '../commands/commands.ts';
import {entriesOnNode, otherUplinks, podAddresses, podsHere, routesToPods} from './node-paths.ts';

/** Who sends packets to endpoints through a node: an address of each, as packets are when they are routed. */
interface Group {
  readonly isOfFewClients?: true;
  readonly who: (senders: readonly string[]) => string;
  readonly senders: readonly {readonly source: Address; readonly mark: number; readonly iif: string}[];
}

/**
 * Packets that policy routing sends away from a pod: for each rule the first group of senders that it hits, with the other ones named. Only
 * `info` where only clients of a network that the rule names are hit.
 */
export function misroutedPackets(
  context: NodeCheckContext,
  family: Family,
): readonly (Pick<Observation, 'severity' | 'message' | 'command'> & Pick<Astray, 'rule'>)[] {
  if (!isPolicyRouted(context.facts.network, family)) return [];
  return groupBy(misroutedGroups(context, family), ({astray}) => routingCause(astray)).flatMap(group => {
    const [first] = group;
    if (first === undefined) return [];
    const {astray, to, sender, packet} = first;
    const {protocol, sourcePort, port} = packet;
    const mark = sender.mark === 0 ? commandLine`` : commandLine`mark ${`0x${sender.mark.toString(16)}`}`;
    const ports =
      protocol === undefined ? commandLine`` : commandLine`ipproto ${protocol} sport ${String(sourcePort)} dport ${String(port)}`;
    const get = commandLine`ip route get ${to.text} from ${sender.source.text} iif ${sender.iif}`;
    const who = group.map(one => one.who).join(', and ');
    return [
      {
        rule: astray.rule,
        message: `${routingCause(astray)} sends ${who} ${astray.way}, while ${astray.instead} leads to ${to.text}: what Services send there is lost, or the answers are.`,
        ...run(commandLine`ip rule show`, joinedCommand(get, mark, ports)),
        ...(group.every(({isOfFewClients}) => isOfFewClients) ? {severity: 'info'} : {}),
      },
    ];
  });
}

/** The groups of senders that a rule hits, each with its first packet. */
function misroutedGroups(context: NodeCheckContext, family: Family) {
  const ends = endpointsOf(context, family);
  const packetsOf = packetsBetween(context, family);
  return [...groupsOf(context, family), ...clientGroups(context, family)].flatMap(({who, senders, isOfFewClients = false}) => {
    const found = senders.flatMap(sender => {
      for (const to of ends.filter(({text}) => text !== sender.source.text))
        for (const packet of packetsOf(sender.source, to)) {
          const astray = routedAstray(context.facts, to, {...sender, ...packet});
          if (astray !== null) return [{to, sender, packet, astray}];
        }
      return [];
    });
    const [first] = found;
    return first === undefined ? [] : [{...first, isOfFewClients, who: who(found.map(({sender}) => sender.source.text))}];
  });
}

type Ports = Pick<RouteQuery, 'protocol' | 'sourcePort' | 'port'>;

/** The packets between two pods that rules of policy routing may tell apart by their ports: to the port of an endpoint, and its answers. */
function packetsBetween(context: NodeCheckContext, family: Family): (source: Address, to: Address) => readonly Ports[] {
  const rules = context.facts.network.policyRules[family] ?? [];
  if (rules.every(({protocol, sourcePorts, ports}) => protocol === null && sourcePorts === null && ports === null)) return () => [{}];
  const ofClient = clientPort(rules);
  const serving = portsOf(entriesOnNode(context, family));
  return (source, to) => [
    ...(serving.get(to.text) ?? []).map(({protocol, port}) => ({protocol, sourcePort: ofClient, port})),
    ...(serving.get(source.text) ?? []).map(({protocol, port}) => ({protocol, sourcePort: port, port: ofClient})),
  ];
}

/** One of the ports from which clients connect that no rule asks for, if there is one. */
function clientPort(rules: readonly PolicyRule[]): number {
  const asked = rules.flatMap(({sourcePorts, ports}) => [sourcePorts, ports].filter(range => range !== null));
  const usual = [49_152, 40_000, 33_000, 60_000];
  return usual.find(port => !asked.some(([low, high]) => low <= port && port <= high)) ?? 49_152;
}

const portsOf = once((entries: ReturnType<typeof entriesOnNode>) => {
  const found = new Map<string, {readonly protocol: string; readonly port: number}[]>();
  for (const {port, set} of entries)
    for (const endpoint of set.endpoints) {
      const own = heldIn(found, endpoint.address, () => []);
      const served = {protocol: port.protocol.toLowerCase(), port: endpoint.port};
      if (!own.some(one => one.protocol === served.protocol && one.port === served.port)) own.push(served);
    }
  return found;
});

/** Some pods of this node, and of others, and nodes: what they send is masqueraded, and their own processes serve. */
function endpointsOf(context: NodeCheckContext, family: Family): readonly Address[] {
  const here = podsHere(context, family).slice(0, maxEndpoints);
  const elsewhere = firstElsewhere(context, family).slice(0, maxEndpoints);
  return [...here.map(({address}) => address), ...elsewhere, ...nodesOf(context, family)];
}

/** A pod of each other node. */
export function firstElsewhere(context: NodeCheckContext, family: Family): readonly Address[] {
  return [...podAddresses(context, family)].flatMap(([node, [first]]) =>
    node === context.node.name || first === undefined ? [] : [first.address],
  );
}

/** The addresses of the node and of some others. */
function nodesOf({api, facts}: NodeCheckContext, family: Family): readonly Address[] {
  const own = hostIP(facts, family);
  const others = (api.nodes ?? []).filter(({metadata}) => metadata.name !== facts.name).flatMap(internalIPs);
  const known = [...(own === null ? [] : [own]), ...others].flatMap(text => parseAddress(text) ?? []);
  return known.filter(address => address.family === family).slice(0, maxEndpoints);
}

const maxPods = 50;
const maxEndpoints = 3;

function groupsOf(context: NodeCheckContext, family: Family): readonly Group[] {
  const {facts} = context;
  const sender = (source: Address | null | undefined, given?: string | null): Group['senders'] => {
    const iif = source == null ? null : (given ?? usualDevice(facts, source));
    return source == null || iif === null ? [] : [{source, mark: 0, iif}];
  };
  const own = podsHere(context, family).slice(0, maxPods);
  const others = firstElsewhere(context, family).flatMap(address => sender(address, facts.primaryInterface));
  const [client] = outsideOf(family).flatMap(outside => sender(outside));
  const mark = 1 << context.config.masqueradeBit.value;
  return [
    {who: senders => `packets of pods of this node (${someOf(senders)})`, senders: own.flatMap(({address}) => sender(address))},
    {who: () => 'packets of pods of other nodes', senders: others.slice(0, maxEndpoints)},
    {who: () => 'packets of the node itself', senders: sender(parseAddress(hostIP(facts, family) ?? ''), 'lo')},
    {
      who: () =>
        `packets with the mark 0x${mark.toString(16)}, by which kube-proxy marks what it masquerades (of clients outside and of other nodes, to node ports and load balancers)`,
      senders: client === undefined ? [] : [{...client, mark}],
    },
  ];
}

/** Clients outside that rules of policy routing name, or that come by such an uplink, before and after kube-proxy marks what they send. */
function clientGroups(context: NodeCheckContext, family: Family): readonly Group[] {
  const {facts, config} = context;
  const networks = (facts.network.policyRules[family] ?? []).flatMap(({from, isInverted}) =>
    from === null || from.prefix === 0 || isInverted ? [] : [from],
  );
  return clientsOutside(context, networks, family).map(({text, client, iif}) => ({
    isOfFewClients: true,
    who: () => `packets of clients ${text}`,
    senders: iif === null ? [] : [0, 1 << config.masqueradeBit.value].map(mark => ({source: client, mark, iif})),
  }));
}

/** One of the clients of each of some networks, and of each other uplink that rules of policy routing ask for. */
function clientsOutside(context: NodeCheckContext, networks: readonly Cidr[], family: Family) {
  const rules = context.facts.network.policyRules[family] ?? [];
  const asked = otherUplinks(context, family).filter(({dev}) => rules.some(({iif}) => iif === dev));
  return [
    ...outsideIn(context, networks, family).map(({network, client}) => ({
      text: `in ${network}`,
      client,
      iif: usualDevice(context.facts, client),
    })),
    ...asked.map(({dev, client}) => ({text: `that come by ${dev}`, client, iif: dev})),
  ];
}

/** Networks of the internet without a pod, a node or a Service, each with one of its clients. */
export function outsideIn(context: NodeCheckContext, networks: readonly Cidr[], family: Family) {
  const {api, facts} = context;
  const unidentified = addressesIn(unidentifiedRanges[family], family);
  const found = [...new Set(networks.map(({text}) => text))]
    .flatMap(network => addressesIn([network], family).map(range => ({network, range})))
    .filter(({range}) => intersect([range], unidentified).length === 0);
  // What follows looks at all Nodes, and few nodes have such a network.
  if (found.length === 0) return [];
  const services = entriesOnNode(context, family).flatMap(({port}) => [port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs]);
  const others = (api.nodes ?? []).flatMap(node => [...internalIPs(node), ...podCIDRsOf(node)]);
  const used = addressesIn([...facts.addresses, ...facts.podCIDRs, ...services, ...others], family);
  return found
    .filter(({range}) => intersect([range], used).length === 0)
    .map(({network, range: [low, high]}) => {
      const value = low < high ? low + 1n : low;
      return {network, client: {family, value, text: formatAddress(family, value)}};
    });
}

/** Clients outside that get no answer, in words: a route or a rule of policy routing refuses their packets, or the answers. */
export function refusedClients(context: NodeCheckContext, family: Family): readonly string[] {
  const {facts, config} = context;
  const {routes, policyRules} = context.facts.network;
  const refusing = (routes[family] ?? []).flatMap(({kind, to}) => (isRefusal(kind) && to.prefix > 0 ? [to] : []));
  const named = (policyRules[family] ?? []).flatMap(({from, to, isInverted}) =>
    [from, to].flatMap(network => (network === null || network.prefix === 0 || isInverted ? [] : [network])),
  );
  const clients = clientsOutside(context, [...refusing, ...named], family);
  if (clients.length === 0 || !entriesOnNode(context, family).some(({port}) => hasExternalEntry(port))) return [];
  const pods = [...podAddresses(context, family).values()].flatMap(own => own.filter(({isExternal}) => isExternal).slice(0, 1));
  const ends = [...pods.map(({address}) => address), ...[parseAddress(hostIP(facts, family) ?? '')].filter(own => own !== null)];
  const packetsOf = packetsBetween(context, family);
  const isRefused = (source: Address, to: Address, mark: number, dev: string | null): boolean => {
    const iif = facts.addresses.includes(source.text) ? 'lo' : dev;
    const query = {source, mark, iif: iif ?? undefined};
    return packetsOf(source, to).some(packet => routeOf(context.facts.network, to, {...query, ...packet}).kind === 'unreachable');
  };
  return clients.flatMap(({text, client, iif}) => {
    const marks = [0, 1 << config.masqueradeBit.value];
    const isLost = (end: Address): boolean =>
      isRefused(end, client, 0, usualDevice(facts, end)) || marks.some(mark => isRefused(client, end, mark, iif));
    return ends.some(isLost) ? [text] : [];
  });
}

/** Whether a route of this kind leads nowhere. */
export function isRefusal(kind: string): boolean {
  return /^(?:unreachable|blackhole|prohibit)$/.test(kind);
}

/**
 * Pods of the node or of others, or the node itself, whose packets to an endpoint routing rules refuse although the node has a route there; and
 * what comes from outside, where they refuse it once kube-proxy marked it, which it does before the kernel routes.
 */
export function refusedPods(context: NodeCheckContext, family: Family) {
  if (!isPolicyRouted(context.facts.network, family)) return [];
  const here = new Set(podsHere(context, family).map(({address}) => address.text));
  const ends = [...firstPods(context, family), ...nodesOf(context, family)];
  const packetsOf = packetsBetween(context, family);
  return groupsOf(context, family).flatMap(({senders}) =>
    senders.flatMap(({source, mark, iif: given}) => {
      const isOwn = source.text === hostIP(context.facts, family);
      // In a tunnel, pods of other nodes arrive by its interface.
      const iif = isOwn ? given : usualDevice(context.facts, source);
      if (iif === null) return [];
      const isRefused = (end: Address, of: number): boolean =>
        packetsOf(source, end).some(
          packet => routeOf(context.facts.network, end, {mark: of, source, iif, ...packet}).kind === 'unreachable',
        );
      const isThrough = (end: Address): boolean => mark !== 0 || isOwn || here.has(source.text) || here.has(end.text);
      const to = ends.find(end => end.text !== source.text && isThrough(end) && isRefused(end, mark) && (mark === 0 || !isRefused(end, 0)));
      return to === undefined ? [] : [{from: source.text, to: to.text, iif, mark}];
    }),
  );
}

/** A pod of each node. */
function firstPods(context: NodeCheckContext, family: Family): readonly Address[] {
  return [...podAddresses(context, family).values()].flatMap(own => own.slice(0, 1)).map(({address}) => address);
}

/** Endpoints to which a route leads by an interface that loses packets, for each such interface. Each pod here has a route of its own. */
export function downWays(context: NodeCheckContext, family: Family): readonly (LossyWay & {readonly addresses: readonly string[]})[] {
  const {network} = context.facts;
  if (!hasLossyWays(network)) return [];
  const found = [...podAddresses(context, family)].flatMap(([node, pods]) =>
    (node === context.node.name ? pods : pods.slice(0, maxEndpoints)).flatMap(({address}) => {
      const way = downWay(network, address, {mark: 0, iif: 'lo'});
      return way === null ? [] : [{text: address.text, ...way}];
    }),
  );
  return groupBy(found, ({dev, isOneOfSeveral}) => `${dev} ${isOneOfSeveral}`).flatMap(group =>
    group.slice(0, 1).map(({text: _, ...way}) => ({...way, addresses: group.map(({text}) => text)})),
  );
}

/** Endpoints of this node whose packets take a route that is none of pods, where an interface of pods is down; null if there are none. */
export function podsWithoutLink(context: NodeCheckContext, family: Family, isUsual: (route: RouteResult) => boolean) {
  const usual = routesToPods(context, family).filter(({node, route}) => node === context.node.name && isUsual(route));
  const lost = usual.map(({address}) => address);
  const down = lost.length === 0 ? [] : downPodLinks(context.facts, lost);
  return down.length === 0 ? null : {addresses: lost.map(({text}) => text), down};
}

/** Addresses of Services that processes of the node have no route to. Programs that translate addresses in the socket need none. */
export function unroutedServices(
  context: NodeCheckContext,
  family: Family,
): {readonly unrouted: readonly string[]; readonly severity: 'error' | 'warning'} {
  const network = context.facts.network;
  const isInSocket = network.links?.some(({name}) => /^(?:cilium_|bpfin\.cali)/.test(name)) === true;
  const ports = isInSocket ? [] : entriesOnNode(context, family).map(({port}) => port);
  const find = (addresses: readonly string[]): readonly string[] =>
    [...new Set(addresses)].filter(text => {
      const address = parseAddress(text);
      return address !== null && isUnroutedHere(network, address);
    });
  const clusterIPs = find(ports.map(({clusterIP}) => clusterIP));
  const others = find(ports.flatMap(({externalIPs, loadBalancerVIPs}) => [...externalIPs, ...loadBalancerVIPs]));
  return {unrouted: [...clusterIPs, ...others], severity: clusterIPs.length > 0 ? 'error' : 'warning'};
}
