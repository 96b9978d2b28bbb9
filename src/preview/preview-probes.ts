import {entriesOf, isProbedFrom, probe as probeOf, type ProbeParts} from '../analyze/outcomes/probes.ts';
import {podInterface, type Source, sourcesFor, usualSources} from '../analyze/outcomes/sources.ts';
import {once} from '../model/once.ts';
import {isLoopback, type NodeContext} from '../expect/node-context.ts';
import {familyOf} from '../model/address.ts';
import type {Endpoint, ServedPort} from '../model/endpoint.ts';
import type {Intervals} from '../model/intervals.ts';
import type {Entry} from '../model/service-port.ts';
import type {Packet} from '../trace/walked-packet.ts';

/** One packet to walk on both sides. */
export interface PreviewProbe {
  readonly kind: 'entry' | 'localhost' | 'hairpin' | 'unused-port' | 'health-check';
  readonly entry: Entry;
  readonly source: Source;
  readonly packet: Packet;
  /** Whom the packet stands for, where the usual sender of its kind does not: `10.244.11.32/27 (3 pods: shop/a, shop/b, shop/c)`. */
  readonly who?: string;
  /** The addresses of all senders that are treated as its own, where a proof tells. */
  readonly space?: Intervals;
  /** A proof found its sender: other Service ports may have another probe in its place. */
  readonly isFurther?: true;
}

/**
 * Packets that show the differences between two sides for one Service port: every entry, at every address of the node, from every source.
 */
export function previewProbes(item: ServedPort, contexts: readonly [NodeContext, NodeContext]): readonly PreviewProbe[] {
  const [before, after] = contexts;
  const {port} = item;
  const sources = sourcesFor(port, senderContext(contexts), endpointAddresses(item));
  const entries = new Map([before, after].flatMap(context => entriesOf(port, context)).map(entry => [JSON.stringify(entry), entry]));
  // On another node, pods of that node meet the same rules.
  const probes = [...entries.values()].flatMap(entry => [
    ...destinationsOf(entry, before).flatMap(address =>
      sources
        .filter(source => isProbedFrom(entry, source) || (source.kind === 'remote-pod' && entry.kind !== 'clusterIP'))
        .flatMap(source => probe('entry', {item, entry, source, address})),
    ),
    ...(entry.kind === 'nodePort' ? localhostProbe(item, entry) : []),
    ...hairpins(item, entry, before),
  ]);
  return [...probes, ...healthCheck(item, before, sources)];
}

const senderContext = once(
  ([before, after]: readonly [NodeContext, NodeContext]): NodeContext =>
    before.detector.kind === 'none' && after.detector.kind !== 'none' ? {...before, detector: after.detector} : before,
);

/** Whether a probe stands for the pods of other nodes: not if nothing tells the network of all pods. */
export function hasRemotePods(contexts: readonly [NodeContext, NodeContext]): boolean {
  return usualSources(senderContext(contexts)).some(({kind}) => kind === 'remote-pod');
}

/** A load balancer's health check of the node. */
function healthCheck(item: ServedPort, context: NodeContext, sources: readonly Source[]): readonly PreviewProbe[] {
  const {healthCheckNodePort} = item.port;
  const entry: Entry = {kind: 'nodePort', address: null, port: healthCheckNodePort};
  const [address] = destinationsOf(entry, context);
  const source = sources.find(({kind}) => kind === 'outside');
  if (healthCheckNodePort === 0 || address === undefined || source === undefined) return [];
  const tcp = {...item, port: {...item.port, protocol: 'TCP' as const}};
  return probe('health-check', {item: tcp, entry, source, address});
}

/** A packet to a port that no Service has at this cluster IP. */
export function unusedPortProbes(item: ServedPort, context: NodeContext, unusedPort: number): readonly PreviewProbe[] {
  const entry: Entry = {kind: 'clusterIP', address: item.port.clusterIP, port: unusedPort};
  const sources = sourcesFor(item.port, context, endpointAddresses(item)).filter(({kind}) => kind === 'pod' || kind === 'node');
  return sources.flatMap(source => probe('unused-port', {item, entry, source, address: item.port.clusterIP}));
}

function endpointAddresses({all}: ServedPort): ReadonlySet<string> {
  return new Set(all.map(({address}) => address));
}

function destinationsOf(entry: Entry, context: NodeContext): readonly string[] {
  return entry.address === null ? nodeAddresses(context) : [entry.address];
}

/** The addresses of the node that others can reach: a node port is probed on each. */
export const nodeAddresses = once(({facts, family}: NodeContext): readonly string[] => {
  const own = facts.addresses.filter(address => familyOf(address) === family && !isLoopback(address) && !address.startsWith('fe80:'));
  return own.length > 0 ? own : facts.hostIPs.filter(address => familyOf(address) === family);
});

function localhostProbe(item: ServedPort, entry: Entry): readonly PreviewProbe[] {
  const address = item.port.family === 'IPv4' ? '127.0.0.1' : '::1';
  return probe('localhost', {item, entry, source: {kind: 'node', address, interface: null}, address});
}

/** An endpoint of this node with an address of its own. */
export function endpointHere({endpoints}: ServedPort, {facts}: NodeContext): Endpoint | undefined {
  return endpoints.reachable.find(({address, nodeName}) => nodeName === facts.name && !facts.addresses.includes(address));
}

/** One endpoint of this node that connects to its own Service. */
function hairpins(item: ServedPort, entry: Entry, context: NodeContext): readonly PreviewProbe[] {
  const own = endpointHere(item, context);
  if (own === undefined) return [];
  const source: Source = {kind: 'endpoint', address: own.address, interface: podInterface(context)};
  return destinationsOf(entry, context).flatMap(address => probe('hairpin', {item, entry, source, address}));
}

function probe(kind: PreviewProbe['kind'], parts: ProbeParts): readonly PreviewProbe[] {
  return probeOf(parts).map(({entry, source, packet}) => ({kind, entry, source, packet}));
}
