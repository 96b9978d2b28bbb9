import {writesExternalIPs} from '../../expect/cluster/proxy-versions.ts';
import {isLoopback, type NodeContext, nodePortDestinations} from '../../expect/node-context.ts';
import {familyOf, formatAddress, parseAddress} from '../../model/address.ts';
import type {Endpoint, ServedPort} from '../../model/endpoint.ts';
import type {Severity} from '../../model/finding.ts';
import {hostIP} from '../../model/node/node-facts.ts';
import {type Entry, entryText, type ServicePort} from '../../model/service-port.ts';
import {type AddressInterval, parseInterval} from '../../parse/nftables/address-list.ts';
import {type Environment, type Packet, untouched} from '../../trace/walked-packet.ts';
import {podInterface, type Source, sourceName, sourcesFor, usualSources} from './sources.ts';

/** One packet to try on the expected and on the actual rules. */
export interface Probe {
  readonly entry: Entry;
  readonly source: Source;
  readonly packet: Packet;
  /** For a packet that an endpoint sends to its own Service: that endpoint. */
  readonly endpoint?: Endpoint;
  /** The lists of clients (of `recent`, or affinity sets) that hold the source. */
  readonly knownTo: ReadonlySet<string>;
  /** For a packet that another node sends straight to an endpoint of this one: `ip:port`. */
  readonly direct?: string;
  /** Where the packet stands for a part of the senders of its kind. */
  readonly senders?: Senders;
  /** The interface by which clients come, if it is not the usual one. */
  readonly by?: string;
}

/** Who is hit by what happens to a class. */
export interface Senders {
  /** In words: `a pod of this node`, `10.244.11.32/27 (2 pods: shop/a, shop/b)`. */
  readonly text: string;
  /** Running pods, as `namespace/name`. */
  readonly pods: readonly string[];
  /** They are other nodes. */
  readonly areNodes?: boolean;
  /** It is about some of the source ports from which clients connect. */
  readonly ofSomePorts?: true;
  /** The most that a loss can be: a class without a pod or node, or a part of the clients outside, is hit on purpose. */
  readonly most?: Severity;
}

/** The packets of a probe, in words. */
export function whose({source, entry, senders, direct}: Probe): string {
  const to = direct === undefined ? `to its ${entryText(entry)}` : `sent on by other nodes to its endpoint ${direct}`;
  if (senders !== undefined) return `packets from ${senders.text} ${to}`;
  const name = source.kind === 'other-range' ? `${source.address} (not in loadBalancerSourceRanges)` : sourceName(source);
  return `packets from ${name} ${to}`;
}

export interface ProbeInput {
  readonly item: ServedPort;
  readonly context: NodeContext;
  /** Endpoints whose own connections to the Service are to be tried. */
  readonly hairpins: readonly Endpoint[];
  /** Further clients of load-balancer IPs. */
  readonly clients?: readonly Source[];
}

/** Packets that cover a Service port's rules on a node: every entry from every kind of source. */
export function probesFor({item, context, hairpins, clients = []}: ProbeInput): readonly Probe[] {
  const {port} = item;
  const taken = new Set(item.all.map(({address}) => address));
  const sources = [...sourcesFor(port, context, taken), ...clients];
  const probes = entriesOf(port, context).flatMap(entry =>
    entryAddresses(entry, context).flatMap(address =>
      sources.filter(source => isProbedFrom(entry, source)).flatMap(source => probe({item, entry, source, address})),
    ),
  );
  return [
    ...probes,
    ...localhostProbe(item, context),
    ...hairpins.flatMap(endpoint => hairpin(item, endpoint, context)),
    ...affinityProbes(item, probes),
  ];
}

/** The entries' packets alone: one source that reaches each entry in the ordinary way. */
export function entryAddresses(entry: Entry, context: NodeContext): readonly string[] {
  return entry.address === null ? probedNodePortAddresses(context) : [entry.address];
}

/**
 * Ranges and own addresses matter for load-balancer IPs only. Other nodes and their pods send to the node ports of this one: all other
 * entries are served by the rules of their own node.
 */
export function isProbedFrom(entry: Entry, {kind}: Source): boolean {
  if (kind === 'allowed' || kind === 'other-range' || kind === 'own-address') return entry.kind === 'loadBalancerIP';
  return entry.kind === 'nodePort' || (kind !== 'remote-pod' && kind !== 'other-node');
}

export interface ProbeParts {
  readonly item: ServedPort;
  readonly entry: Entry;
  readonly source: Source;
  readonly address: string;
}

/** A new packet to an entry, at one of its addresses; none if an address is invalid. */
export function probe({item, entry, source, address}: ProbeParts): readonly Probe[] {
  const packet = packetOf(item.port, {source: source.address, destination: address, port: entry.port, from: source});
  return packet === null ? [] : [{entry, source, packet, knownTo: new Set()}];
}

/** A packet that another node sends straight to an endpoint of this one. Null if one of the addresses is invalid. */
export function directProbe(port: ServicePort, endpoint: Endpoint, source: Source): Probe | null {
  const packet = packetOf(port, {source: source.address, destination: endpoint.address, port: endpoint.port, from: source});
  const entry = {kind: 'clusterIP', address: port.clusterIP, port: port.port} as const;
  return packet === null ? null : {entry, source, packet, knownTo: new Set(), direct: endpoint.hostPort};
}

/** A new packet; null if one of the addresses is invalid. */
export function packetOf(
  {protocol, family}: {readonly protocol: string; readonly family: Packet['family']},
  parts: {
    readonly source: string;
    readonly destination: string;
    readonly port: number;
    readonly from: {readonly kind: string; readonly interface: string | null};
  },
): Packet | null {
  const source = parseAddress(parts.source);
  const destination = parseAddress(parts.destination);
  if (source === null || destination === null) return null;
  return {
    ...untouched,
    family,
    source,
    destination,
    port: parts.port,
    protocol: protocol.toLowerCase(),
    origin: parts.from.kind === 'node' || parts.from.kind === 'own-address' ? 'node' : 'arriving',
    inInterface: parts.from.interface,
  };
}

/** A new packet from outside to an address of the node; null where that is none of its family. */
export function packetToNode(
  {protocol, ...to}: {readonly protocol: string; readonly destination: string; readonly port: number},
  context: NodeContext,
  {isLocal}: Environment,
): {readonly source: Source; readonly packet: Packet} | null {
  const {family} = context;
  const source = usualSources(context).find(({kind}) => kind === 'outside');
  const packet = source === undefined ? null : packetOf({protocol, family}, {...to, source: source.address, from: source});
  const isToNode = packet?.destination.family === family && isLocal(packet.destination) === true;
  return source === undefined || packet === null || !isToNode ? null : {source, packet};
}

/** A node port on 127.0.0.1, which only the node itself can reach. */
function localhostProbe(item: ServedPort, context: NodeContext): readonly Probe[] {
  const {port} = item;
  if (port.nodePort === 0 || context.family === 'IPv6' || !context.localhostNodePorts) return [];
  const entry: Entry = {kind: 'nodePort', address: null, port: port.nodePort};
  return probe({item, entry, source: {kind: 'node', address: '127.0.0.1', interface: null}, address: '127.0.0.1'});
}

/** A connection of an endpoint to itself must be masqueraded, or it gets no reply. */
function hairpin(item: ServedPort, endpoint: Endpoint, context: NodeContext): readonly Probe[] {
  const onNode = endpoint.address === hostIP(context.facts, context.family);
  const source: Source = {kind: onNode ? 'node' : 'endpoint', address: endpoint.address, interface: onNode ? null : podInterface(context)};
  // Where the policies differ, an endpoint may be reached through one entry and not through another.
  return entriesOf(item.port, context).flatMap(entry =>
    entryAddresses(entry, context)
      .slice(0, 1)
      .flatMap(address => probe({item, entry, source, address}).map(made => ({...made, endpoint}))),
  );
}

/** With session affinity: a returning client, which is sent back to its endpoint. */
function affinityProbes(item: ServedPort, probes: readonly Probe[]): readonly Probe[] {
  if (item.port.affinitySeconds === null) return [];
  const usual = new Map([...probes].reverse().map(made => [`${made.entry.kind} ${made.source.kind}`, made]));
  return [...usual.values()]
    .reverse()
    .flatMap(made => item.endpoints.reachable.slice(0, 64).map(endpoint => ({...made, knownTo: new Set([item.clientList(endpoint)])})));
}

/** All entries of a Service port that kube-proxy serves on a node. */
export function entriesOf(port: ServicePort, context: NodeContext): readonly Entry[] {
  const external = writesExternalIPs(context.version, context.gates) ? port.externalIPs : [];
  return [
    {kind: 'clusterIP', address: port.clusterIP, port: port.port},
    ...(port.nodePort === 0 ? [] : [{kind: 'nodePort', address: null, port: port.nodePort} as const]),
    ...[...new Set(port.loadBalancerVIPs)].map(address => ({kind: 'loadBalancerIP', address, port: port.port}) as const),
    ...[...new Set(external)].map(address => ({kind: 'externalIP', address, port: port.port}) as const),
  ];
}

/** Addresses of the node on which to try a node port: its own first, a few others after it, link-local ones if it has no other. Never loopback. */
export function probedNodePortAddresses(context: NodeContext): readonly string[] {
  const served = nodePortDestinations(context) ?? context.facts.addresses.filter(address => familyOf(address) === context.family);
  const answering = served.filter(address => !isLoopback(address));
  const routable = answering.filter(address => !address.startsWith('fe80:'));
  const usable = routable.length > 0 ? routable : answering;
  const own = usable.filter(address => context.facts.hostIPs.includes(address));
  return [...own, ...usable.filter(address => !own.includes(address))].slice(0, 4);
}

/**
 * A client in each network that texts of rules or elements name, and that loadBalancerSourceRanges do not hold: a range that was removed from
 * the Service may still be allowed on the node. Without ranges, all clients are allowed.
 */
export function clientsOfOtherRanges(texts: readonly string[], {sourceRanges}: ServicePort, context: NodeContext): readonly Source[] {
  if (sourceRanges.length === 0) return [];
  const ranges = intervalsIn(sourceRanges);
  const named = intervalsIn(texts.flatMap(text => text.match(/[\da-f.:]+(?:[/-][\da-f.:]+)?/g) ?? []));
  return named
    .filter(({family}) => family === context.family)
    .slice(0, maxNetworks)
    .flatMap(network => {
      const address = addressOutside(network, ranges, context);
      return address === undefined ? [] : [{kind: 'other-range', address, interface: context.facts.primaryInterface}];
    });
}

const maxNetworks = 64;

function intervalsIn(texts: readonly string[]): readonly AddressInterval[] {
  return texts.flatMap(text => parseInterval(text) ?? []);
}

/** Tries addresses all over the network. */
function addressOutside(
  {family, low, high}: AddressInterval,
  ranges: readonly AddressInterval[],
  {facts}: NodeContext,
): string | undefined {
  const size = high - low + 1n;
  const isAllowed = (value: bigint): boolean => ranges.some(range => range.family === family && range.low <= value && value <= range.high);
  return Array.from({length: 16}, (_, part) => low + (size * BigInt(2 * part + 1)) / 32n)
    .filter(value => !isAllowed(value))
    .map(value => formatAddress(family, value))
    .find(text => !facts.addresses.includes(text));
}
