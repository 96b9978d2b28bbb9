import {bitsOf, type Address, contains, families, type Family, familyOf, parseAddress, type parseCidr} from '../../model/address.ts';
import {isSame, type NetworkFacts, routeOf} from '../../model/node/node-facts.ts';
import {
  homeLink,
  isOfMany,
  isPolicyRouted,
  isReversePathStrict,
  networksOnLink,
  outsideOf,
  routingCause,
  ruleBehind,
  usualDevice,
} from '../../model/node/policy-routing.ts';
import {hasExternalEntry} from '../../model/service-port.ts';
import {internalIPs, nodeObject} from '../../expect/api-index.ts';
import type {Observation} from '../../model/finding.ts';
import {groupBy} from '../../model/lists.ts';
import {onceAsked} from '../../model/once.ts';
import type {PodWay, RoutedPods} from '../../model/node-result.ts';
import {commandLine, plural, someOf} from '../../model/text.ts';
import type {NodeCheckContext} from '../check-types.ts';
import {run} from '../commands/commands.ts';
import {entriesOnNode, interfaceSwitch, otherUplinks, podAddresses, podsBehindStrangers, podsHere, routesToPods} from './node-paths.ts';
import {firstElsewhere, misroutedPackets, outsideIn} from './policy-routes.ts';

/** Packets that the kernel drops by their way back, or whose answers leave by another interface, and what shows or ends that on the node. */
type Asymmetric = Pick<Observation, 'severity' | 'message' | 'command'>;

/** The worst of a family: what pods lose is known for sure. */
export function asymmetric(context: NodeCheckContext, family: Family): Asymmetric | null {
  const uplink = uplinkOf(context, family);
  if (uplink === null) return null;
  const ofUplink = podsLost(context, uplink) ?? nodeLost(context, uplink) ?? clientsLost(context, uplink);
  return ofUplink !== null && ofUplink.severity !== 'info'
    ? ofUplink
    : (lostBeside(context, uplink) ?? ofUplink ?? lostBySecond(context, family));
}

/** Clients that come by a second uplink, while what answers them leaves by the first: whether any do is not known. */
function lostBySecond(context: NodeCheckContext, family: Family): Asymmetric | null {
  const found = otherUplinks(context, family).find(({dev}) => filtersStrictly(context, family, dev));
  if (found === undefined || !isWired(context, found.back, 0)) return null;
  const {dev, back} = found;
  return {
    severity: 'info',
    message: `rp_filter of ${dev} is strict (1), and a default route leads by it too, while the answers of pods to clients outside leave by ${back}: the kernel drops what clients send to node ports and load balancers by ${dev}.`,
    ...run(commandLine`sysctl -w ${interfaceSwitch(dev, 'rp_filter')}=2`, commandLine`ip route show table all default`),
  };
}

/** Clients outside that ask addresses of Services in the network of another interface, as a load balancer announces them there. */
function lostBeside(context: NodeCheckContext, uplink: Uplink): Asymmetric | null {
  for (const text of serviceAddresses(context, uplink.family)) {
    const own = parseAddress(text);
    const dev = own === null ? null : homeLink(context.facts, own);
    if (own === null || dev === null || dev === uplink.dev || !filtersStrictly(context, uplink.family, dev)) continue;
    const lost = clientsLost(context, {...uplink, dev, own, isStrict: true});
    if (lost !== null) return lost;
  }
  return null;
}

/** Where packets between pods of a node and those of others go and come from; null where no gateways lead to all of them. */
export function routedPods(context: NodeCheckContext, family: Family): RoutedPods | null {
  const {facts, api} = context;
  const uplink = uplinkOf(context, family);
  const ways = groupBy(
    routesToPods(context, family).filter(({node}) => node !== facts.name),
    ({node}) => node,
  );
  const others = [...podAddresses(context, family)].filter(([node, pods]) => node !== facts.name && pods.length > 0);
  if (uplink === null || ways.length === 0 || ways.length < others.length) return null;
  const [gateways, devices] = [new Map<string, string>(), new Map<string, string>()];
  const strays = new Map<string, {readonly gateway: string; readonly dev: string}>();
  const told = onceAsked(() => new Set(podsBehindStrangers(context, family).map(({node}) => node)));
  for (const [first, ...rest] of ways) {
    if (first?.route.kind !== 'unicast' || rest.some(({route}) => !isSame(route, first.route))) return null;
    const {node, route} = first;
    const {gateway, dev} = route;
    if (gateway === null || !isOfMany(facts.network, dev)) return null;
    if (dev !== uplink.dev && !gateway.startsWith('fe80:') && !told().has(node)) strays.set(node, {gateway, dev});
    const object = nodeObject(api, node);
    if (object === undefined || !internalIPs(object).includes(gateway)) gateways.set(node, gateway);
    if (dev !== uplink.dev) devices.set(node, dev);
  }
  const strict = new Map(
    (facts.onLink ?? []).flatMap(({name, network}) => {
      const [address = ''] = network.split('/');
      return familyOf(address) === family && family === 'IPv4' && isReversePathStrict(facts.network, name) ? [[address, name]] : [];
    }),
  );
  const own = facts.addresses.filter(text => familyOf(text) === family && text !== uplink.own.text);
  return {family, gateways, devices, strays, strict, own: uplink.own.text, others: own, usual: uplink.dev};
}

/** Nodes that send what is for pods of others to a gateway on another link that these do not have, while they send straight back. */
export function* strayBetween(ways: readonly PodWay[]): Iterable<Observation> {
  for (const family of families) yield* strayIn(routedIn(ways, family), family);
}

function routedIn(ways: readonly PodWay[], family: Family) {
  return new Map(ways.flatMap(({node, routed = []}) => routed.flatMap(own => (own.family === family ? [[node, own] as const] : []))));
}

function* strayIn(routed: ReturnType<typeof routedIn>, family: Family): Iterable<Observation> {
  for (const [node, {strays}] of routed)
    for (const [name, {gateway, dev}] of strays) {
      const there = routed.get(name);
      if (there === undefined || [there.own, ...there.others].includes(gateway) || there.gateways.has(node)) continue;
      yield {
        node,
        family,
        severity: 'warning',
        message: `packets for endpoints on ${name} go to ${gateway} by ${dev}, which ${name} does not have, while ${name} sends what is for pods here straight to this node: what Services send there may not arrive.`,
        ...run(commandLine`ip route show dev ${dev}`, commandLine`ip neighbour show ${gateway}`),
      };
    }
}

/** Nodes that drop what pods of others send, because another interface than the one by which it arrives leads back to these. */
export function* droppedBetween(ways: readonly PodWay[]): Iterable<Observation> {
  const routed = routedIn(ways, 'IPv4');
  for (const [node, {strict, own, usual, devices}] of routed) {
    const lost = [...(strict.size === 0 ? [] : routed)].flatMap(([name, {gateways}]) => {
      const dev = name === node ? undefined : strict.get(gateways.get(node) ?? own);
      const back = devices.get(name) ?? usual;
      return dev === undefined || dev === back ? [] : [{name, dev, back}];
    });
    for (const [first, ...others] of groupBy(lost, ({dev, back}) => `${dev} ${back}`)) {
      if (first === undefined) continue;
      const nodes = [first, ...others].map(({name}) => name);
      yield {
        node,
        family: 'IPv4',
        message: `rp_filter of ${first.dev} is strict (1), and packets of pods on ${plural(nodes.length, 'other node')} (${someOf(nodes)}) arrive there, while ${first.back} leads back to these pods: the kernel drops what they send to pods here by Services, unless their nodes masquerade it.`,
        ...run(commandLine`sysctl -w ${interfaceSwitch(first.dev, 'rp_filter')}=2`),
      };
    }
  }
}

/** The interface of the node's address. */
interface Uplink {
  readonly family: Family;
  readonly dev: string;
  readonly own: Address;
  readonly isStrict: boolean;
}

/** Null for an address of no network, which packets reach by any interface. */
function uplinkOf(context: NodeCheckContext, family: Family): Uplink | null {
  const {facts} = context;
  const own = facts.hostIPs.flatMap(text => parseAddress(text) ?? []).find(address => address.family === family);
  const dev = facts.primaryInterface;
  if (own === undefined || dev === null) return null;
  return {family, dev, own, isStrict: filtersStrictly(context, family, dev)};
}

/** IPv6 has no such switch. */
function filtersStrictly({facts}: NodeCheckContext, family: Family, dev: string): boolean {
  return family === 'IPv4' && isReversePathStrict(facts.network, dev);
}

/** Packets to node ports that go on to a pod whose own packets leave by another interface, as with secondary interfaces for pods. */
function podsLost(context: NodeCheckContext, uplink: Uplink): Asymmetric | null {
  const {family, dev, own, isStrict} = uplink;
  const {network} = context.facts;
  if (!isStrict && !isPolicyRouted(network, family)) return null;
  const client = outsideOf(family).find(one => wayBack(network, one, {source: own}) === dev);
  const lost = client === undefined ? null : podsLostTo(context, uplink, client);
  if (lost !== null || !isStrict || !isPolicyRouted(network, family)) return lost;
  // Tables of policy routing may name networks of clients.
  const named = (network.routes[family] ?? []).flatMap(({to, table}) => (to.prefix > 0 && !/^(?:main|local)$/.test(table) ? [to] : []));
  const [few] = outsideIn(context, named, family).flatMap(one => podsLostTo(context, uplink, one.client, one.network) ?? []);
  return few === undefined ? null : {...few, severity: 'info'};
}

function podsLostTo(context: NodeCheckContext, uplink: Uplink, client: Address, network?: string): Asymmetric | null {
  const {family, dev, isStrict} = uplink;
  const lostOf = (sources: readonly Address[]) =>
    sources.slice(0, maxPods).flatMap(source => {
      const sender = {source, iif: usualDevice(context.facts, source) ?? 'lo'};
      const other = wayBack(context.facts.network, client, sender);
      return other === null || other === dev ? [] : [{other, sender}];
    });
  const here = lostOf(podsHere(context, family).flatMap(({isExternal, address}) => (isExternal ? [address] : [])));
  const lost = here.length > 0 || !isStrict ? here : lostOf(firstElsewhere(context, family));
  const [first] = lost;
  if (first === undefined) return null;
  const which = `${plural(lost.length, 'pod')} (${someOf(lost.map(({sender}) => sender.source.text))})`;
  const isAsked = usualDevice(context.facts, client) === dev || serviceAddressOn(context, uplink, first.other) !== null;
  if (!isStrict) return ifAsked(isAsked, sentElsewhere(context, uplink, {client, which, ...first}));
  const [to, from] = network === undefined ? ['', ''] : [` to ${network}`, ' from there'];
  const message = `rp_filter of ${dev} is strict (1), and policy rules route packets of ${which}${to} by ${first.other}: the kernel drops what arrives${from} on ${dev} for ${lost.length === 1 ? 'it' : 'them'} through node ports and load balancers.`;
  return {severity: isAsked ? 'error' : 'info', message, ...run(commandLine`sysctl -w ${interfaceSwitch(dev, 'rp_filter')}=2`)};
}

const maxPods = 50;

/** Packets to the node's address, from networks that its interface leads to, whose replies leave by another interface. */
function nodeLost(context: NodeCheckContext, uplink: Uplink): Asymmetric | null {
  const {family, dev, own, isStrict} = uplink;
  for (const {to, hops, kind} of isStrict ? (context.facts.network.routes[family] ?? []) : []) {
    if (kind !== 'unicast' || !hops.some(hop => hop.dev === dev && hop.gateway !== null)) continue;
    const client = to.prefix === 0 ? outsideOf(family)[0] : parseAddress(hostInside(to.text));
    if (client === undefined || client === null) continue;
    const other = wayBack(context.facts.network, client, {source: own});
    if (other === null || other === dev || !isWired(context, other, to.prefix)) continue;
    return ifAsked(to.prefix > 0 || usualDevice(context.facts, client) === dev || serviceAddressOn(context, uplink, other) !== null, {
      message: `rp_filter of ${dev} is strict (1), and the replies to packets from ${to.prefix === 0 ? 'outside' : to.text}, which ${dev} has a route to as well, leave by ${other}: the kernel drops such packets when they arrive on ${dev}.`,
      ...run(commandLine`sysctl -w ${interfaceSwitch(dev, 'rp_filter')}=2`),
    });
  }
  const [client] = outsideOf(family);
  const usual = client === undefined ? null : usualDevice(context.facts, client);
  if (client !== undefined && usual !== null && isCoveredByHalves(context, uplink, usual))
    return ifAsked(serviceAddressOn(context, uplink, usual) !== null, {
      message: `routes to one half of all addresses each, as of a VPN, come before the default route by ${dev} and send the answers of the node and its pods to clients outside by ${usual}, while clients ask addresses of ${dev}: node ports and load balancers lose them, unless the network there takes them.`,
      ...run(commandLine`ip route show`, commandLine`ip route get ${client.text} from ${own.text}`),
    });
  if (client === undefined || !isPolicyRouted(context.facts.network, family) || usual !== dev) return null;
  const other = wayBack(context.facts.network, client, {source: own});
  if (other === null || other === dev) return null;
  const found = sentElsewhere(context, uplink, {client, other, which: 'the node and its pods', sender: {source: own, iif: 'lo'}});
  return ifAsked(serviceAddressOn(context, uplink, other) !== null, found);
}

/** `0.0.0.0/1` and `128.0.0.0/1` by one interface, while the default route is by that of the node's address. */
function isCoveredByHalves(context: NodeCheckContext, {family, dev}: Uplink, name: string): boolean {
  const main = (context.facts.network.routes[family] ?? []).filter(({table, kind}) => kind === 'unicast' && /^(?:main|254)$/.test(table));
  const leadBy = (prefix: number, by: string): number =>
    main.filter(({to, hops}) => to.prefix === prefix && hops.some(hop => hop.dev === by)).length;
  return name !== dev && leadBy(0, dev) > 0 && leadBy(1, name) === 2;
}

/** Where outside is behind another interface, it is not known that clients there ask this one. */
function ifAsked(isAsked: boolean, found: Asymmetric | null): Asymmetric | null {
  return found === null || isAsked ? found : {...found, severity: 'info'};
}

/**
 * The answers of some leave by another interface than requests come in by, unless they get a mark that leads them back. What the same rule
 * does to packets between pods is found by itself.
 */
function sentElsewhere(
  context: NodeCheckContext,
  {family, dev}: Uplink,
  {client, which, other, sender}: {readonly client: Address; readonly which: string; readonly other: string; readonly sender: Sender},
): Asymmetric | null {
  const network = context.facts.network;
  const leadsBack = (given: NetworkFacts, mark: number): boolean => wayBack(given, client, sender, mark) === dev;
  const marks = (network.policyRules[family] ?? []).flatMap(({mark, isInverted}) => (mark === null || isInverted ? [] : mark.value));
  if (marks.some(mark => leadsBack(network, mark)) && restoresMarks(context)) return null;
  const rule = ruleBehind(network, family, without => leadsBack(without, 0));
  // Branch interfaces of AWS send what pods of theirs send to the network's gateway, which knows where it belongs.
  if (rule !== null && rule.iif !== null) return null;
  if (misroutedPackets(context, family).some(misrouted => misrouted.rule === rule)) return null;
  return {
    message: `${routingCause({rule})} sends the answers of ${which} to clients outside by ${other}, while clients ask addresses of ${dev}: node ports and load balancers lose them, unless the network there takes them.`,
    ...run(commandLine`ip rule show`, commandLine`ip route get ${client.text} from ${sender.source.text} iif ${sender.iif}`),
  };
}

/** Whether rules may give packets the mark of their connection. That of wg-quick is for its own tunnel. */
function restoresMarks({node}: NodeCheckContext): boolean {
  const files = node.files.filter(file => /-save$|^nft\.json$/.test(file)).map(file => node.read(file)?.toString() ?? '');
  return files.some(text => /^(?!.*-p udp).*--restore-mark|"ct"\s*:\s*\{\s*"key"\s*:\s*"mark"/m.test(text)) || files.length === 0;
}

/**
 * Clients outside, to whom the interface that they ask has no route. It is not known that they ask this address, unless a Service
 * has another one in its network.
 */
function clientsLost(context: NodeCheckContext, uplink: Uplink): Asymmetric | null {
  const {family, dev, own, isStrict} = uplink;
  const [client] = outsideOf(family);
  const network = isStrict && entriesOnNode(context, family).some(({port}) => hasExternalEntry(port)) ? homeOf(context, dev, own) : null;
  const other = client === undefined || network === null ? null : wayBack(context.facts.network, client, {source: own});
  if (network === null || other === null || other === dev || !isWired(context, other, 0)) return null;
  const asked = serviceAddressOn(context, uplink, other);
  return {
    ...(asked === null ? {severity: 'info'} : {}),
    message: `rp_filter of ${dev} is strict (1), and the default route is by ${other}: where clients outside ${network.text} ask addresses of ${dev} (${asked ?? own.text}), the kernel drops their packets when they arrive there.`,
    ...run(commandLine`sysctl -w ${interfaceSwitch(dev, 'rp_filter')}=2`, commandLine`ip route show default`),
  };
}

/** An address of a Service in the network of the node's interface, and not in that of another one. */
function serviceAddressOn(context: NodeCheckContext, {family, dev}: Uplink, other: string): string | null {
  const isThere = (text: string): boolean => {
    const address = parseAddress(text);
    return address !== null && homeOf(context, dev, address) !== null && homeOf(context, other, address) === null;
  };
  return serviceAddresses(context, family).find(isThere) ?? null;
}

function serviceAddresses(context: NodeCheckContext, family: Family): readonly string[] {
  return entriesOnNode(context, family).flatMap(({port}) => [...port.loadBalancerVIPs, ...port.externalIPs]);
}

/** The network of an interface that an address is of. */
function homeOf({facts}: NodeCheckContext, dev: string, address: Address): ReturnType<typeof parseCidr> {
  const found = networksOnLink(facts).find(
    ({name, cidr}) => name === dev && cidr.prefix !== bitsOf(cidr.family) && contains(cidr, address),
  );
  return found?.cidr ?? null;
}

const wired: ReadonlySet<string | null> = new Set(['', 'vlan', 'bond', 'team', 'macvlan']);

/** No tunnel. The node of a cluster in containers has links to the networks outside that are like those to pods. */
function isWired(context: NodeCheckContext, name: string, prefix: number): boolean {
  const kind = context.facts.network.links?.find(link => link.name === name)?.kind ?? null;
  return wired.has(kind) || (prefix === 0 && kind === 'veth');
}

/** The first host of a network. */
function hostInside(network: string): string {
  const [base = '', prefix = '32'] = network.split('/');
  return prefix === '32' ? base : base.replace(/\d+$/, last => String(Number(last) + 1));
}

interface Sender {
  readonly source: Address;
  readonly iif: string;
}

/** Null if it is unknown or there is none. */
function wayBack(
  network: NetworkFacts,
  client: Address,
  {source, iif = 'lo'}: Partial<Sender> & Pick<Sender, 'source'>,
  mark = 0,
): string | null {
  const route = routeOf(network, client, {source, iif, mark});
  return route.kind === 'unicast' ? route.dev : null;
}
