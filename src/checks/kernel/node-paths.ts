import {keptWith, once} from '../../model/once.ts';
import {type PortEntry, proxyVersion} from '../../expect/cluster/cluster-view.ts';
import {bitsOf, type Address, contains, families, type Family, parseAddress} from '../../model/address.ts';
import {groupBy, partition} from '../../model/lists.ts';
import {podPorts} from '../../model/node/bridges.ts';
import {type RouteResult, unknownRoute} from '../../model/node/node-facts.ts';
import {hasExternalEntry} from '../../model/service-port.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import type {NodeCheckContext} from '../check-types.ts';
import {internalIPs, nodeNamesByAddress, nodeObject} from '../../expect/api-index.ts';
import {overlaps} from '../../expect/cluster/service-range.ts';
import {parseInterval} from '../../parse/nftables/address-list.ts';
import {addressesOfPods, podCIDRsOf} from '../../expect/node-context.ts';
import {
  crowdedLinks,
  downTunnel,
  isOnUplink,
  leadsToNoNode,
  leavesByUplink,
  ledOut,
  linksOfPods,
  misledTo,
  networksOnLink,
  nodesBehind,
  outsideOf,
  routeOfProcesses,
  routeOfServices,
  strangeHop,
  uplinksOf,
  usualDevice,
} from '../../model/node/policy-routing.ts';

interface Holder {
  readonly address: Address;
  readonly node: string;
}

/** An endpoint with an address of its own, which is read when it is asked for, as it is of few. */
class PodAddress implements Holder {
  readonly text: string;
  readonly node: string;
  /** Whether packets from outside the cluster get to it. */
  isExternal: boolean;

  constructor(text: string, node: string, isExternal: boolean) {
    this.text = text;
    this.node = node;
    this.isExternal = isExternal;
  }

  get address(): Address {
    const address = parseAddress(this.text);
    if (address === null) throw new TypeError(`the endpoint ${this.text} has no address`);
    return address;
  }
}

/** The families of Services that were evaluated on the node. */
export function familiesOnNode(context: NodeCheckContext): readonly Family[] {
  return families.filter(family => context.families.includes(family) && entriesOnNode(context, family).length > 0);
}

export function entriesOnNode({view, config}: NodeCheckContext, family: Family): readonly PortEntry[] {
  return view.entries(family, proxyVersion(config));
}

/** Uplinks by which clients of the node's Services may come, other than the one by which their answers leave. */
export function otherUplinks(context: NodeCheckContext, family: Family) {
  const [client] = outsideOf(family);
  const back = client === undefined ? null : usualDevice(context.facts, client);
  if (client === undefined || back === null) return [];
  const others = uplinksOf(context.facts)[family].flatMap(dev => (dev === back ? [] : [{dev, back, client}]));
  // Most nodes have one uplink: their Services are not looked at.
  return others.length > 0 && entriesOnNode(context, family).some(({port}) => hasExternalEntry(port)) ? others : [];
}

/** Pods with a ready endpoint, by node, without those in the network of their node. */
export function podAddresses(context: NodeCheckContext, family: Family): ReadonlyMap<string, readonly PodAddress[]> {
  return podIndex(context, family).byNode;
}

/** Those on the node itself. */
export function podsHere(context: NodeCheckContext, family: Family): readonly PodAddress[] {
  return podAddresses(context, family).get(context.node.name) ?? [];
}

function podIndex(context: NodeCheckContext, family: Family): PodIndex {
  return podsOf(entriesOnNode(context, family))(nodeNamesByAddress(context.api));
}

interface PodIndex {
  readonly byAddress: ReadonlyMap<string, PodAddress>;
  readonly byNode: ReadonlyMap<string, readonly PodAddress[]>;
}

/** The same for all nodes. */
const podsOf = once((entries: readonly PortEntry[]) =>
  once((ofNodes: ReadonlyMap<string | undefined, string>): PodIndex => {
    const byAddress = new Map<string, PodAddress>();
    for (const {port, set} of entries) {
      const isExternal = hasExternalEntry(port);
      for (const {address, nodeName, ready, terminating, sliceEndpoint} of set.endpoints) {
        const {kind, name} = sliceEndpoint.targetRef ?? {};
        if (!ready || terminating || nodeName === null || kind !== 'Pod' || name === undefined || ofNodes.has(address)) continue;
        const known = byAddress.get(address);
        if (known?.node !== nodeName) byAddress.set(address, new PodAddress(address, nodeName, isExternal));
        else if (isExternal) known.isExternal = true;
      }
    }
    return {byAddress, byNode: Map.groupBy(byAddress.values(), ({node}) => node)};
  }),
);

/** Bridges that pods of the node with endpoints hang on. */
export function podBridges(context: NodeCheckContext, family: Family) {
  // On most nodes nothing shows a bridge, and to find the device of each pod takes long.
  if (!context.facts.network.links?.some(({kind, master, isPeerElsewhere}) => kind === 'bridge' || (master !== null && isPeerElsewhere)))
    return [];
  const endpoints = Map.groupBy(podsHere(context, family), ({address}) => deviceTo(context, address.text));
  return [...endpoints].flatMap(([name, pods]) => {
    const bridge = podPorts(context.facts.network, name);
    return name === null || bridge === null ? [] : [{name, ...bridge, endpoints: pods.map(({address}) => address.text)}];
  });
}

/** By routes, or by the networks of the interfaces where routes were not read; null if neither shows it. */
export function deviceTo(context: NodeCheckContext, text: string): string | null {
  const address = parseAddress(text);
  if (address === null) return null;
  const route = routeTo(context, address);
  if (route.kind !== 'unknown') return route.kind === 'unicast' ? route.dev : null;
  return networksOnLink(context.facts).find(({cidr}) => contains(cidr, address))?.name ?? null;
}

/** For packets of the node, with any source. */
export function routeTo({facts}: NodeCheckContext, address: Address): RouteResult {
  return routeOfServices(facts, address);
}

/** As sysctl reads and prints it: a dot in the name of an interface is a slash. */
export function interfaceSwitch(dev: string, name: string): string {
  return `net.ipv4.conf.${dev.replaceAll('.', '/')}.${name}`;
}

export interface Unrouted {
  readonly node: string;
  readonly addresses: readonly string[];
}

/** Some endpoints of each other node, and of this one all, to which the route is known to be such a one. */
export function unroutedPods(
  context: NodeCheckContext,
  family: Family,
  isSuch: (route: RouteResult, address: Address) => boolean,
): readonly Unrouted[] {
  const found = routesToPods(context, family).filter(({route, address}) => isSuch(route, address));
  return byNode(found).map(({node, addresses}) => ({node, addresses: addresses.slice(0, maxNamed)}));
}

function byNode(pods: readonly Holder[]): readonly Unrouted[] {
  const groups = Map.groupBy(pods, ({node}) => node);
  return [...groups].map(([node, own]) => ({node, addresses: [...new Set(own.map(({address}) => address.text))]}));
}

/** The routes that are known to all endpoints of this node, and to some of each other one. */
export function routesToPods(context: NodeCheckContext, family: Family): readonly (Holder & {readonly route: RouteResult})[] {
  if (context.facts.network.routes[family] === null) return [];
  return keptWith(context, `routes to pods of ${family}`, () => {
    const some = someOfNetworks(podAddresses(context, family));
    const pods = [...some].flatMap(([node, own]) => (node === context.node.name ? podsHere(context, family) : [...own]));
    return pods.flatMap(({address, node}) => {
      const route = routeTo(context, address);
      return route.kind === 'unknown' ? [] : [{address, node, route}];
    });
  });
}

const maxNamed = 3;

/** Three pods of each node, and one of each further network of 64 addresses: a network plugin may have a route for each. */
const someOfNetworks = once(
  (pods: ReadonlyMap<string, readonly PodAddress[]>) =>
    new Map(
      [...pods].map(([node, own]) => {
        const networks = [...Map.groupBy(own, ({text}) => networkOfPod(text)).values()].slice(0, maxNetworks);
        return [node, new Set([...own.slice(0, maxNamed), ...networks.flatMap(([first]) => first ?? [])])] as const;
      }),
    ),
);

const maxNetworks = 16;

function networkOfPod(address: string): string {
  const end = Math.max(address.lastIndexOf('.'), address.lastIndexOf(':'));
  return address.includes(':') ? address.slice(0, end) : `${address.slice(0, end)}.${Number(address.slice(end + 1)) >> 6}`;
}

/**
 * Where packets go that are for an address of another node and do not leave for it, or for a pod of this node and leave: by routes to single
 * addresses, as a network plugin leaves them behind, or makes for an address that two pods have; or by the network of an interface that
 * overlaps theirs.
 */
export function misledPods(context: NodeCheckContext, family: Family) {
  const network = context.facts.network;
  const routes = network.routes[family] ?? [];
  if (routes.length === 0) return [];
  const holders = [podIndex(context, family).byAddress, nodesByInternalIP(context.api)] as const;
  const nodeAt = nodeWith(context);
  const found = routes.flatMap(({to: cidr, hops}) => {
    const isSingle = cidr.prefix === bitsOf(family);
    const isAside = ({dev, gateway}: (typeof hops)[number]): boolean =>
      gateway === null &&
      (leadsToNoNode(context.facts, dev) ||
        linksOfPods(context.facts).has(dev ?? '') ||
        nodesBehind(network, {family, value: cidr.base}, nodeAt).length > 0);
    if (!isSingle && !hops.some(isAside)) return [];
    const text = cidr.text.replace(/\/.*/, '');
    const inside = isSingle
      ? holders.flatMap(own => own.get(text) ?? []).slice(0, 1)
      : holders.flatMap(own => [...own.values()].filter(({address}) => contains(cidr, address)).slice(0, 100));
    return inside.flatMap(({address, node}) => {
      const to = misledTo(context.facts, {address, node, isPod: addressesOfPods(context.api).has(address.text)}, nodeAt);
      return to === null ? [] : [{node, address, to}];
    });
  });
  return [...Map.groupBy(found, ({to}) => to)].map(([to, same]) => ({to, found: byNode(same)}));
}

/** The nodes by their InternalIPs; a node with several has some that move, as those of a load balancer do. */
const nodesByInternalIP = once(({nodes}: ApiObjects) => {
  const single = (nodes ?? []).flatMap(node =>
    groupBy(internalIPs(node), text => String(text.includes(':'))).flatMap(([text = '', ...others]): readonly Holder[] => {
      const address = others.length > 0 ? null : parseAddress(text);
      return address === null ? [] : [{address, node: node.metadata.name ?? ''}];
    }),
  );
  return new Map(single.map(holder => [holder.address.text, holder]));
});

function nodeWith({api}: NodeCheckContext): (address: string) => string | null {
  return address => nodesByInternalIP(api).get(address)?.node ?? null;
}

/** The default gateway of the node, and whether a route leads to it; null without one. */
export function defaultRoute(
  context: NodeCheckContext,
  family: Family,
): {readonly gateway: string; readonly isUsual: (route: RouteResult) => boolean} | null {
  const [client] = outsideOf(family);
  const usual = client === undefined ? unknownRoute : routeOfProcesses(context.facts.network, client);
  if (usual.kind !== 'unicast' || usual.gateway === null) return null;
  const {dev, gateway} = usual;
  return {gateway, isUsual: route => route.kind === 'unicast' && route.dev === dev && route.gateway === gateway};
}

/** Interfaces by which routes lead to more endpoints of the node than can be behind them. */
export function linksOfTooMany(context: NodeCheckContext, family: Family): ReturnType<typeof crowdedLinks> {
  return crowdedLinks(context.facts, family, () => podsHere(context, family).map(({text}) => text));
}

/** Pods of other nodes to which routes lead by an address of the node's own network that no Node has, although theirs is in it too. */
export function podsBehindStrangers(
  context: NodeCheckContext,
  family: Family,
): readonly (Unrouted & NonNullable<ReturnType<typeof strangeHop>>)[] {
  const known = nodeNamesByAddress(context.api);
  const hops = {isOfNode: (address: string) => known.has(address), nodeAt: nodeWith(context)};
  const found = routesToPods(context, family).flatMap(({address, node}) => {
    const strange = node === context.facts.name ? null : strangeHop(context.facts, {address, node}, hops);
    const object = strange === null ? undefined : nodeObject(context.api, node);
    const isNear = object !== undefined && internalIPs(object).some(own => isOnUplink(context.facts, parseAddress(own)));
    return strange !== null && isNear ? [{node, addresses: [address.text], ...strange}] : [];
  });
  return groupBy(found, ({node}) => node).flatMap(([first]) => first ?? []);
}

/**
 * Endpoints to which packets take the default gateway, while pods of other nodes have routes: the network plugin makes one for each other
 * node. Some networks have none at all.
 */
export function podsAstray(context: NodeCheckContext, family: Family): readonly Unrouted[] {
  const usual = defaultRoute(context, family);
  const astray = usual === null ? [] : unroutedPods(context, family, usual.isUsual);
  if (usual === null || astray.length === 0) return [];
  const hasOwn = (route: RouteResult): boolean => route.kind === 'unicast' && route.gateway !== null && !usual.isUsual(route);
  const others = (context.api.nodes ?? []).filter(({metadata}) => metadata.name !== context.facts.name);
  const ofOthers = others.flatMap(podCIDRsOf).flatMap(text => parseInterval(text) ?? []);
  const isRouted = (context.facts.network.routes[family] ?? []).some(
    ({to, hops}) =>
      to.prefix > 0 &&
      to.prefix < bitsOf(family) &&
      hops.some(({gateway}) => gateway !== null && gateway !== usual.gateway) &&
      overlaps(to.text, ofOthers),
  );
  const isOther = ({node}: Unrouted): boolean => node !== context.node.name;
  return isRouted || downTunnel(context.facts) !== null || unroutedPods(context, family, hasOwn).some(isOther) ? astray : [];
}

/**
 * Endpoints of this node to which packets take the default gateway, or leave by the interface of the node's address or by another wire,
 * while pods here have interfaces of their own. Tables for packets by some interface may name those whose network asks the gateway for
 * them, such as pods with a security group of AWS.
 */
export function podsWithoutRoute(
  context: NodeCheckContext,
  family: Family,
  {gateway, isUsual}: NonNullable<ReturnType<typeof defaultRoute>>,
): readonly {readonly way: string; readonly addresses: readonly string[]}[] {
  const single = bitsOf(family);
  const named = new Map(
    (context.facts.network.routes[family] ?? []).flatMap(({to, table}) => (to.prefix === single ? [[to.base, table === 'main']] : [])),
  );
  const [own, others] = partition(
    routesToPods(context, family).filter(({node}) => node === context.node.name),
    ({address}) => named.has(address.value),
  );
  const hasOwn = own.some(({route}) => route.kind === 'unicast' && route.gateway === null);
  const leaving = [...own, ...others].filter(
    ({address, route}) => named.get(address.value) !== false && leavesByUplink(context.facts, route),
  );
  const textsOf = (pods: typeof own): readonly string[] => pods.map(({address}) => address.text);
  const out = groupBy(
    [...own, ...others].flatMap(pod => {
      const way = ledOut(context.facts, pod.address, pod.route);
      const isOfNode = pod.route.kind === 'unicast' && nodeNamesByAddress(context.api).has(pod.route.gateway ?? '');
      return way === null || isOfNode ? [] : [{...pod, way}];
    }),
    ({way}) => way,
  );
  return [
    {way: `go to the default gateway ${gateway}`, addresses: textsOf(hasOwn ? others.filter(({route}) => isUsual(route)) : [])},
    {way: `leave by ${context.facts.primaryInterface}`, addresses: textsOf(leaving)},
    ...out.map(pods => ({way: `go ${pods[0]?.way}`, addresses: textsOf(pods)})),
  ].filter(({addresses}) => addresses.length > 0);
}
