import {ClusterReader} from '../../collect/cluster/cluster-reader.ts';
import {readCluster, readServiceObjects} from '../../collect/cluster/read-cluster.ts';
import type {CollectedNode} from '../../collect/node/transport.ts';
import type {KubeApi} from '../../collect/kube/kube-api.ts';
import type {PacketAnswer} from '../../analyze/packet-query.ts';
import {canonicalAddress} from '../../model/address.ts';
import type {PodObject, ServiceObject} from '../../model/api-objects.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {Snapshot} from '../../model/snapshot.ts';
import {escapeText} from '../../render/renderer.ts';
import {clearLeftovers, collectFrom} from '../nodes/node-intake.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';
import {type NodeSourceFlags, nodeSource, withCiliumSettings} from '../nodes/node-source.ts';
import {nodeAsker, nodesByAddress, notAmong, type PacketFlags, packetQuery, startNode} from './packet-flags.ts';
import {hasAddress, parseServiceName} from '../scope/select-services.ts';
import {notRead} from '../wrong-use.ts';

interface PacketRun extends Pick<ClusterRun, 'cluster' | 'signal' | 'progress'> {
  readonly flags: PacketFlags & NodeSourceFlags;
}

export interface PacketAnswers {
  /** By node name. */
  readonly answers: readonly PacketAnswer[];
  /** Why nodes could not be read. */
  readonly unread: readonly string[];
  /** What else could not be read. */
  readonly notes?: readonly string[];
}

/** Walks the packet on the chosen nodes of a cluster. Throws a CLIError for names that are not found. */
export async function askCluster({flags: given, cluster, signal, progress}: PacketRun): Promise<PacketAnswers> {
  const {api} = cluster;
  const flags = {...given, namespace: cluster.namespace};
  progress.say('reading the API');
  const reader = new ClusterReader(api);
  const objects = await unlessAborted(readNamed(api, flags, reader), signal);
  const notes = reader.problems.map(({message}) => escapeText(message));
  const snapshot: Snapshot = {origin: cluster.description, api: objects, nodes: [], problems: []};
  const {destination} = packetQuery(flags, snapshot);
  const start = startNode(flags, snapshot);
  const source = await unlessAborted(nodeSource(flags, {api, objects: objects.nodes}), signal);
  const {nodes, transport, cilium} = source;
  await clearLeftovers(transport, {cluster, flags});
  if (nodes.length === 0) throw notRead('no node is known: name one with --node');
  const answers: PacketAnswer[] = [];
  const unread: string[] = [];
  // The walk of a new connection does not depend on tracked connections.
  const wants = (file: string) => !file.startsWith('conntrack');
  // The nodes that others send the packet on to are read first, and kept.
  const reached = endpointNodes(snapshot, destination);
  const isStart = ({name}: {readonly name: string}): boolean => start === null || name === start;
  const isKept = ({name}: {readonly name: string}): boolean => reached.has(name);
  const kept: CollectedNode[] = [];
  const reading = {signal, progress, wants, cilium};
  for await (const node of collectFrom(source, nodes.filter(isKept), reading)) kept.push(node);
  const ask = nodeAsker(flags, {...snapshot, api: withCiliumSettings(objects, source), nodes: kept});
  const rest = collectFrom(
    source,
    nodes.filter(node => !isKept(node) && isStart(node)),
    reading,
  );
  for await (const node of inTurn(kept, rest)) {
    if (node.status === 'unread') unread.push(escapeText(`${node.name}: ${node.problems.map(({message}) => message).join('; ')}`));
    else if (isStart(node)) answers.push(ask(node));
  }
  if (start !== null && !nodes.some(isStart)) unread.push(notAmong(flags.source, start));
  return {answers: answers.sort((a, b) => (a.node < b.node ? -1 : 1)), unread: unread.sort(), notes};
}

/** Above this number of nodes, the rules of a packet's next node are not walked: those of all would have to be kept. */
const maxKept = 20;

/** The nodes that hold what the packet can be sent to; none if they are too many. */
function endpointNodes({api}: Snapshot, destination: string): ReadonlySet<string> {
  const byAddress = nodesByAddress(api);
  const addresses = (api.endpointSlices ?? []).flatMap(({endpoints}) => (endpoints ?? []).flatMap(endpoint => endpoint.addresses ?? []));
  const names = new Set([...addresses, destination].flatMap(address => byAddress.get(address) ?? []));
  return names.size > maxKept ? new Set() : names;
}

async function* inTurn<T>(first: Iterable<T>, then: AsyncIterable<T>): AsyncGenerator<T> {
  yield* first;
  yield* then;
}

/** The Service that is named or has the address, the pod, and the Nodes. */
async function readNamed(api: KubeApi, flags: PacketFlags, reader: ClusterReader): Promise<Snapshot['api']> {
  const {source, destination, namespace} = flags;
  const input = {names: [], namespace, allNamespaces: false, selector: undefined};
  const address = canonicalAddress(destination);
  const service = address === null ? parseServiceName(destination, input) : null;
  // Without the right to list Services the answer is that of the rules alone.
  const all = address === null ? null : await readServiceObjects({kind: 'cluster'}, reader);
  const services =
    address !== null
      ? servicesAt(all ?? [], address, flags)
      : service === null
        ? []
        : [{namespace: service.namespace ?? 'default', name: service.name}];
  const [reading, pods] = await Promise.all([
    readCluster(api, {kind: 'services', services}),
    canonicalAddress(source) === null ? readPod(api, source, namespace ?? 'default') : [],
  ]);
  if (service !== null && reading.api.services === null) throw notRead(reading.problems.map(({message}) => message).join('; '));
  const objects = {...reading.api, pods, podsOf: new Set<string>()};
  if (all === null || services.length > 0) return objects;
  // The Services of all namespaces were read, and none has the address.
  const {namespaces: _, ...whole} = objects;
  return {...whole, services: all};
}

/** The Services with this address, or with this node port. */
function servicesAt(all: readonly ServiceObject[], address: string, {port}: PacketFlags): readonly ServiceName[] {
  return all
    .filter(service => isAskedAt(service, address, Number(port)))
    .map(({metadata: {namespace = 'default', name}}) => ({namespace, name}));
}

function isAskedAt(service: ServiceObject, address: string, port: number): boolean {
  const {loadBalancerIP = '', ports = []} = service.spec ?? {};
  return (
    hasAddress(service, address) || canonicalAddress(loadBalancerIP) === address || (ports ?? []).some(({nodePort}) => nodePort === port)
  );
}

async function readPod(api: KubeApi, text: string, namespace: string): Promise<readonly PodObject[]> {
  const [first = '', second] = text.split('/');
  const own = second === undefined || ['pod', 'po', 'pods'].includes(first) ? namespace : first;
  const path = `/api/v1/namespaces/${encodeURIComponent(own)}/pods/${encodeURIComponent(second ?? first)}`;
  const reader = new ClusterReader(api);
  const pods = await reader.get({of: 'pods', path, remedy: ''});
  if (pods === null) throw notRead(reader.problems[0]?.message ?? '');
  return pods;
}
