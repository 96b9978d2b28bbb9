import {internalIPs} from '../../expect/api-index.ts';
import {type Address, contains, type Family, parseAddress} from '../../model/address.ts';
import {asksUplinkFor, downTunnel, isLocalRouteMissing, isLoopbackDown} from '../../model/node/policy-routing.ts';
import {hostIP, isIPv6Off, isTakenBy, missingTable, routeOf, sysctlNumber, type Vxlan} from '../../model/node/node-facts.ts';
import type {Observation} from '../../model/finding.ts';
import {groupBy, partition} from '../../model/lists.ts';
import {type CommandLine, commandLine, plural, someOf} from '../../model/text.ts';
import type {NodeCheckContext} from '../check-types.ts';
import {check} from '../catalog.ts';
import {run} from '../commands/commands.ts';
import {downWays, isRefusal, misroutedPackets, podsWithoutLink, refusedClients, refusedPods, unroutedServices} from './policy-routes.ts';
import {strayBetween} from './reverse-path.ts';
import {
  defaultRoute,
  familiesOnNode,
  linksOfTooMany,
  misledPods,
  podsAstray,
  podsBehindStrangers,
  podsWithoutRoute,
  routeTo,
  type Unrouted,
  unroutedPods,
} from './node-paths.ts';

export const noRouteToPods = check('ST611', {
  *node(context) {
    if (isLoopbackDown(context.facts.network)) {
      const message =
        "lo is down: what the node's own processes and pods with hostNetwork send to addresses of the node is lost, and so is what Services send from them to endpoints in its network.";
      yield {variant: 'link-down', message, ...run(commandLine`ip link set lo up`)};
    }
    if (familiesOnNode(context).includes('IPv4') && sysctlNumber(context.facts.network, 'net.ipv4.ip_default_ttl') === 1)
      yield {
        family: 'IPv4',
        message:
          "net.ipv4.ip_default_ttl is 1: the first host that would send them on drops what the node's own processes and pods with hostNetwork send, so that Services reach no pod of another node from them, and clients behind a router get no answer from them.",
        ...run(commandLine`sysctl -w net.ipv4.ip_default_ttl=64`),
      };
    for (const family of familiesOnNode(context)) for (const found of lostPackets(context, family)) yield {family, ...found};
  },
  *nodes(ways) {
    yield* strayBetween(ways);
    const tunneled = ways.flatMap(({node, tunnel, vxlans}) => (tunnel === null ? [] : [{node, tunnel, vxlans}]));
    const [usual = [], ...others] = groupBy(tunneled, ({tunnel: {id, port}}) => `${id} ${port}`).toSorted((a, b) => b.length - a.length);
    for (const {node, tunnel, vxlans} of others.flat()) {
      const [first] = usual;
      if (first === undefined || (isTakenBy(tunnel, first.vxlans) && isTakenBy(first.tunnel, vxlans))) continue;
      const textOf = ({name, id, port}: Vxlan): string => `${name}, the VXLAN with the id ${id} and UDP port ${port}`;
      yield {
        node,
        variant: 'tunnels-differ',
        message: `packets to pods of other nodes leave by ${textOf(tunnel)}, and those of ${plural(usual.length, 'other node')} (${someOf(usual.map(other => other.node))}) by ${textOf(first.tunnel)}: a node takes only packets with its own, and what Services send between pods here and there is lost.`,
        remedy:
          'Give all nodes the same id and port in the settings of the network plugin, and delete the tunnel that is left from others.',
        ...run(commandLine`ip -d link show ${tunnel.name}`),
      };
    }
  },
});

/** What is lost of a family, the worst first. */
function* lostPackets(context: NodeCheckContext, family: Family): Iterable<Observation> {
  if (family === 'IPv6' && isIPv6Off(context.facts)) {
    const message = 'IPv6 is switched off: no interface has an address of IPv6, not even lo, and what Services send over IPv6 is lost.';
    const remedy = 'Switch it on again, and find out which file or program sets it (sysctl.d, the kernel parameter ipv6.disable).';
    yield {message, remedy, ...run(commandLine`sysctl net.ipv6.conf.all.disable_ipv6 net.ipv6.conf.default.disable_ipv6`)};
    return;
  }
  // Rules may refuse packets of the node's own alone.
  const lost = unroutedPods(context, family, ({kind}, address) => kind === 'unreachable' && !isForwardedTo(context, address));
  yield* toUnreachable(context, family, lost);
  yield* ledElsewhere(context, family);
  yield* inDoubt(context, family);
  yield* refusedByRules(context, family, lost.length > 0);
  yield* toServices(context, family);
  yield* byDefaultGateway(context, family);
}

function routeGet(found: readonly Unrouted[]): CommandLine | null {
  return commandLine`ip route get ${found[0]?.addresses[0] ?? ''}`;
}

/** What no route leads to. */
function* toUnreachable(context: NodeCheckContext, family: Family, lost: readonly Unrouted[]): Iterable<Observation> {
  if (lost.length > 0)
    yield {
      message: `no route leads to endpoints on ${nodesIn(lost)}: what Services send there is lost.`,
      ...run(routeGet(lost)),
    };
  const nodes = refusedNodes(context, family);
  if (nodes.length > 0)
    yield {
      message: `no route leads to ${nodesIn(nodes)}: what Services send there, to endpoints in the network of the node, is lost, and so are the answers to it.`,
      ...run(routeGet(nodes)),
    };
}

/** What routes lead to another place than where it is. */
function* ledElsewhere(context: NodeCheckContext, family: Family): Iterable<Observation> {
  for (const {to, found} of misledPods(context, family))
    yield {
      variant: 'led-elsewhere',
      message: `packets to addresses on ${nodesIn(found)} go to ${to}: what Services send there does not arrive.`,
      ...run(routeGet(found), commandLine`ip address show to ${found[0]?.addresses[0] ?? ''}`),
    };
  const hostAddress = parseAddress(hostIP(context.facts, family) ?? '');
  if (hostAddress !== null && isLocalRouteMissing(context.facts, hostAddress))
    yield {
      message: `table local has no route to ${hostAddress.text}, the address of the node: the kernel sends away what is for it, and node ports, endpoints in the network of the node and what Services send from its processes are lost.`,
      remedy: 'Add the address again: the kernel makes the route then.',
      ...run(commandLine`ip route get ${hostAddress.text}`, commandLine`ip route show table local`),
    };
  for (const {dev, addresses, loose} of linksOfTooMany(context, family)) {
    const which = `${addresses.length} pods (${someOf(addresses)}) by ${dev}`;
    yield {
      variant: 'led-elsewhere',
      message:
        loose.length === 0
          ? `routes lead to ${which}, the interface of a single one: what Services send to the others is lost.`
          : `routes lead to ${which}, a bridge without as many ports, while interfaces of pods are ports of none (${someOf(loose)}): what Services send to the pods behind these is lost.`,
      ...run(commandLine`ip route show dev ${dev}`, commandLine`ip link show ${loose[0] ?? dev}`),
    };
  }
}

/** What may not arrive, and what leaves by an interface that is down. */
function* inDoubt(context: NodeCheckContext, family: Family): Iterable<Observation> {
  for (const {node, addresses, hop, isOneOfSeveral} of podsBehindStrangers(context, family))
    yield {
      severity: 'warning',
      message: `${isOneOfSeveral ? 'a share of the ' : ''}packets for endpoints on ${node} (${addresses.join(', ')}) go to ${hop}, which is the address of no Node, although ${node} is in the network of this node: what Services send there may not arrive.`,
      ...run(commandLine`ip route get ${addresses[0] ?? ''}`, commandLine`ip neighbour show ${hop}`),
    };
  const asked = unroutedPods(context, family, (route, address) => asksUplinkFor(context.facts, address, route)).filter(
    ({node}) => node !== context.node.name,
  );
  if (asked.length > 0)
    yield {
      severity: 'warning',
      message: `packets for endpoints on ${nodesIn(asked)} leave by ${context.facts.primaryInterface} without a next hop, and are in none of its networks: what Services send there is lost, unless somebody answers ${family === 'IPv4' ? 'ARP' : 'neighbor solicitations'} for pods of other nodes.`,
      ...run(routeGet(asked), commandLine`ip neighbour show ${asked[0]?.addresses[0] ?? ''}`),
    };
  for (const {dev, isOneOfSeveral, isSilent, addresses} of downWays(context, family)) {
    const ends = `endpoints (${someOf(addresses)})`;
    const share = isOneOfSeveral ? ', and the kernel does not skip it: a share of what' : ': what';
    yield {
      ...(isSilent === true ? {severity: 'warning'} : {variant: 'link-down'}),
      message:
        isSilent === true
          ? `${dev}, which leads to ${ends}, has ARP off: by it the kernel finds only neighbors that it has permanent entries for, and what Services send there may be lost.`
          : `${isOneOfSeveral ? `one of the next hops to ${ends}` : `the interface that leads to ${ends}`}, ${dev}, has no carrier${share} Services send there is lost.`,
      ...run(commandLine`ip route get ${addresses[0] ?? ''}`, commandLine`ip link show ${dev}`),
    };
  }
}

/** What policy routing refuses or leads astray; `isLost` if pods have no route at all. */
function* refusedByRules(context: NodeCheckContext, family: Family, isLost: boolean): Iterable<Observation> {
  const missing = missingTable(context.facts.network, family);
  if (missing !== null)
    yield {
      severity: 'warning',
      message: `the rule of policy routing for table ${missing} is missing: IPv6 goes on without it only where no rule was ever added, and what Services send is lost otherwise.`,
      remedy: 'Add the rule again.',
      ...run(commandLine`ip -6 rule add pref ${missing === 'local' ? '0' : '32766'} lookup ${missing}`),
    };
  const [marked, refused] = partition(refusedPods(context, family), ({mark}) => mark !== 0);
  const [first] = refused;
  if (!isLost && first !== undefined)
    yield {
      variant: 'refused-by-routing-rules',
      message: `the routing rules of the node refuse packets from ${someOf(refused.map(({from}) => from))} to ${first.to} (unreachable, blackhole or prohibit): what Services send there from ${refused.length === 1 ? 'it' : 'them'} is lost, or the answers are.`,
      ...run(commandLine`ip rule show`, commandLine`ip route get ${first.to} from ${first.from} iif ${first.iif}`),
    };
  for (const {to, mark} of isLost || refused.length > 0 ? [] : marked)
    yield {
      variant: 'refused-by-routing-rules',
      message: `the routing rules of the node refuse packets with the mark 0x${mark.toString(16)}, by which kube-proxy marks what it masquerades, to ${to} (unreachable, blackhole or prohibit): what comes from outside through node ports and load balancers, and each pod that reaches itself by a Service, is lost.`,
      ...run(commandLine`ip rule show`, commandLine`ip route get ${to} mark ${`0x${mark.toString(16)}`}`),
    };
  for (const {rule: _, ...found} of misroutedPackets(context, family)) yield found;
  const clients = refusedClients(context, family);
  if (clients.length > 0)
    yield {
      severity: 'info',
      message: `routes or routing rules refuse packets of clients ${someOf(clients)}, or the answers (unreachable, blackhole or prohibit): these get no answer from node ports and load balancers.`,
      remedy: 'Nothing, if these are bans. Otherwise delete them.',
      ...run(commandLine`ip route show table all`, commandLine`ip rule show`),
    };
}

/** Services that the node's own processes cannot ask. */
function* toServices(context: NodeCheckContext, family: Family): Iterable<Observation> {
  const {unrouted, severity} = unroutedServices(context, family);
  const [address] = unrouted;
  const asked = parseAddress(address ?? '');
  const refusing = context.facts.network.routes[family]?.find(
    ({kind, to}) => isRefusal(kind) && to.prefix > 0 && asked !== null && contains(to, asked),
  );
  if (address !== undefined)
    yield {
      severity,
      variant: 'no-route-to-services',
      message: `${refusing === undefined ? 'no route of the node leads to' : `the route "${refusing.kind} ${refusing.to.text}" of the node refuses`} ${plural(unrouted.length, 'address', 'addresses')} of Services (${someOf(unrouted)}): the kernel refuses what the node's own processes and pods with hostNetwork send there before kube-proxy's rules are asked.`,
      remedy: `${refusing === undefined ? 'Add a default route, or a route to the range of these addresses by any interface that is up' : 'Delete that route, and see which program writes it (ip route shows its protocol, such as bird of Calico): the default route then leads there'}. Where it leads does not matter: kube-proxy sends the packets to an endpoint.`,
      ...run(commandLine`ip route get ${address}`, commandLine`ip route show table all`),
    };
}

/** What is for pods and goes to the default gateway. */
function* byDefaultGateway(context: NodeCheckContext, family: Family): Iterable<Observation> {
  const usual = defaultRoute(context, family);
  if (usual === null) return;
  const linkless = podsWithoutLink(context, family, usual.isUsual);
  if (linkless !== null)
    yield {
      variant: 'link-down',
      message: `packets for endpoints on this node (${someOf(linkless.addresses)}) go to the default gateway ${usual.gateway}, while an interface of pods is down (${someOf(linkless.down)}): what Services send there is lost.`,
      ...run(commandLine`ip route get ${linkless.addresses[0] ?? ''}`, commandLine`ip link show ${linkless.down[0] ?? ''}`),
    };
  const own = linkless === null ? podsWithoutRoute(context, family, usual) : [];
  for (const {way, addresses} of own)
    yield {
      severity: 'warning',
      message: `packets for endpoints on this node (${someOf(addresses)}) ${way}, while pods here have interfaces of their own: what Services send there may not arrive.`,
      remedy: 'Delete the pod: another one gets a route. The log of the network plugin on this node may say why this one has none.',
      ...run(commandLine`ip route get ${addresses[0] ?? ''}`),
    };
  const astray = podsAstray(context, family).filter(({node}) => own.length === 0 || node !== context.node.name);
  if (linkless !== null || astray.length === 0) return;
  const tunnel = downTunnel(context.facts);
  const why = tunnel === null ? 'there are routes to the pods of other nodes' : `${tunnel}, the tunnel to other nodes, is down`;
  const message = `packets for endpoints on ${nodesIn(astray)} go to the default gateway ${usual.gateway}, while ${why}: the network may not know where they are.`;
  yield {severity: 'warning', message, ...run(routeGet(astray))};
}

/** Other nodes that routes refuse, as those of a ban do. */
function refusedNodes(context: NodeCheckContext, family: Family): readonly Unrouted[] {
  const refusing = (context.facts.network.routes[family] ?? []).filter(({kind}) => isRefusal(kind));
  const isRefused = (text: string): boolean => {
    const address = parseAddress(text);
    if (address === null || !refusing.some(({to}) => contains(to, address)) || isForwardedTo(context, address)) return false;
    return routeTo(context, address).kind === 'unreachable';
  };
  return (refusing.length === 0 ? [] : (context.api.nodes ?? [])).flatMap(object => {
    const {name = ''} = object.metadata;
    const addresses = name === context.node.name ? [] : internalIPs(object).filter(isRefused);
    return addresses.length === 0 ? [] : [{node: name, addresses}];
  });
}

/** Whether the node has a way to an address for what arrives by the interface of its own address. */
function isForwardedTo(context: NodeCheckContext, address: Address): boolean {
  const {primaryInterface: iif} = context.facts;
  return iif !== null && routeOf(context.facts.network, address, {mark: 0, iif}).kind === 'unicast';
}

function nodesIn(unrouted: readonly Unrouted[]): string {
  const which = someOf(unrouted.map(({node, addresses}) => `${node} (${addresses.join(', ')})`));
  return unrouted.length === 1 ? which : `${unrouted.length} nodes: ${which}`;
}
