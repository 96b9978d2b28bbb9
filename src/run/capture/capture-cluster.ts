import type {BundledNode, BundleContent} from '../../collect/bundle/write-bundle.ts';
import {ClusterReader, readServerVersion} from '../../collect/cluster/cluster-reader.ts';
import {readCluster} from '../../collect/cluster/read-cluster.ts';
import type {KubeApi} from '../../collect/kube/kube-api.ts';
import {collectNodes} from '../../collect/node/collect-node.ts';
import type {Transport} from '../../collect/node/transport.ts';
import {podShape} from '../../collect/objects/api-shapes.ts';
import type {PodObject} from '../../model/api-objects.ts';
import {whyWithoutKubeProxy} from '../../model/node/node-facts.ts';
import type {Problem, Snapshot} from '../../model/snapshot.ts';
import {gracePeriod, type ReadTime, type RecordedHistory} from '../../model/state-history.ts';
import {systemClock} from '../clock.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';
import {FollowedServices} from '../follow-services.ts';
import {asUnread, clearLeftovers, nodeProblems, type ProgressLine, progressText} from '../nodes/node-intake.ts';
import {type NodeSource, nodeSource, type NodeSourceFlags, withCiliumSettings} from '../nodes/node-source.ts';
import type {OpenCluster} from '../open-cluster.ts';

interface CaptureRun {
  readonly flags: NodeSourceFlags & {readonly counters?: boolean};
  readonly cluster: OpenCluster;
  readonly signal: AbortSignal;
  readonly progress: ProgressLine;
}

/**
 * Reads the API objects that a diagnosis needs; the chosen nodes are read as they are iterated. Throws a CLIError, a KubeconfigError or an
 * ApiError, and an Interrupted when the signal is aborted, at once or during iteration.
 */
export async function captureCluster(run: CaptureRun): Promise<Capture> {
  const {flags, cluster, signal, progress} = run;
  const {api} = cluster;
  progress.say('reading the API');
  const [reading, serverVersion] = await unlessAborted(
    Promise.all([readCluster(api, {kind: 'cluster'}), readServerVersion(api, signal)]),
    signal,
  );
  const source = await unlessAborted(nodeSource(flags, {api, objects: reading.api.nodes}), signal);
  const {pods, problems} = await unlessAborted(readPods(api), signal);
  const leftovers = await clearLeftovers(source.transport, {cluster, flags});
  // In this case the pods of Services are unknown, but those of kube-proxy are not.
  const known = pods === null ? {pods: source.pods, podsOf: new Set<string>()} : {pods};
  const without = new Set(
    (reading.api.nodes ?? []).filter(object => whyWithoutKubeProxy(object) !== null).map(({metadata}) => metadata.name),
  );
  const objects = reading.api;
  const scope = {kind: 'cluster'} as const;
  const followed = new FollowedServices({api, scope, objects, versions: reading.versions, clock: systemClock});
  // A node can have the states of before the first list. The API server forgets them within minutes.
  const recalled = followed.recall(Date.now() - gracePeriod * 1000);
  recalled.catch(() => {});
  const readTimes = new Map<string, ReadTime>();
  return {
    origin: cluster.description,
    takenAt: new Date().toISOString(),
    ...(serverVersion === null ? {} : {serverVersion}),
    chosenNodes: source.nodes.length < (reading.api.nodes ?? []).length,
    api: {...withCiliumSettings(reading.api, source), ...known},
    nodes: following(readNodes({source, without, readTimes}, run), {followed, recalled}),
    close: () => followed.close(),
    history: () => recorded(followed, readTimes),
    problems: [...reading.problems, ...source.problems, ...problems, ...leftovers],
  };
}

async function readPods(api: KubeApi): Promise<{readonly pods: readonly PodObject[] | null; readonly problems: readonly Problem[]}> {
  const reader = new ClusterReader(api);
  const remedy = 'Get the right to list pods of all namespaces; without it the bundle holds those of kube-proxy only.';
  const pods = await reader.list<PodObject>({path: '/api/v1/pods', shape: podShape, remedy, isMinor: true});
  return {pods, problems: reader.problems};
}

/** Null if nothing changed while nodes were read. */
function recorded({history: {states}}: FollowedServices, readTimes: ReadonlyMap<string, ReadTime>): RecordedHistory | null {
  return states.changes.length === 0 ? null : {...states, nodes: Object.fromEntries([...readTimes].sort(([a], [b]) => (a < b ? -1 : 1)))};
}

interface Following {
  readonly followed: FollowedServices;
  /** Resolves when the earlier states are known, or cannot be known. */
  readonly recalled: Promise<void>;
}

/** Services are followed until the last node has been read. */
async function* following(nodes: AsyncIterable<BundledNode>, {followed, recalled}: Following): AsyncIterable<BundledNode> {
  yield* nodes;
  await recalled;
  followed.close();
}

interface NodeReads {
  readonly source: NodeSource;
  readonly without: ReadonlySet<string>;
  /** When each node was read. Filled while nodes arrive. */
  readonly readTimes: Map<string, ReadTime>;
}

async function* readNodes({source, without, readTimes}: NodeReads, {flags, signal, progress}: CaptureRun): AsyncIterable<BundledNode> {
  const {transport, concurrency, timeoutMs, readLog, cilium} = source;
  const counters = flags.counters === true ? 'all' : undefined;
  const readable = source.nodes.filter(({name}) => !without.has(name));
  // The requested objects are known not to exist.
  for (const {name} of source.nodes) if (without.has(name)) yield {name, files: [], read: () => null, status: 'read'};
  const onProgress = (counts: Parameters<typeof progressText>[0]) => progress.say(progressText(counts));
  const timed: Transport = {
    name: transport.name,
    open: (node, end) => {
      readTimes.set(node.name, {from: Date.now(), to: Date.now()});
      return transport.open(node, end);
    },
  };
  for await (const node of collectNodes(readable, timed, {
    signal,
    concurrency,
    timeoutMs,
    onProgress,
    counters,
    cilium,
    ...(readLog === undefined ? {} : {log: {read: readLog, of: 'all'}}),
  })) {
    const {via, ...read} = node;
    const to = Date.now();
    readTimes.set(node.name, {from: readTimes.get(node.name)?.from ?? to, to});
    yield {...read, ...asUnread(node), ...(via === null ? {} : {via}), problems: nodeProblems(node)};
  }
}

/** The content of a bundle to be written, from a cluster or from another bundle. */
export interface Capture extends Pick<BundleContent, 'api' | 'nodes' | 'problems'> {
  /** The cluster or the bundle, as text for people. */
  readonly origin: string;
  /** RFC 3339; null if unknown. */
  readonly takenAt: string | null;
  /** Of the API server; left out if unknown. */
  readonly serverVersion?: string;
  /** Only some nodes of the cluster were requested. */
  readonly chosenNodes: boolean;
  /** The states of Services until now; null if none changed. */
  readonly history?: () => RecordedHistory | null;
  /** Ends what goes on while nodes are read; called also where they are never read. */
  readonly close?: () => void;
}

/** Writes a bundle again with only the chosen nodes. */
export function captureOf(
  {origin, takenAt, serverVersion, api, nodes, unread = [], problems, history, chosenNodes = false}: Snapshot,
  wantsNode: (name: string) => boolean,
): Capture {
  const lost = unread.map(node => ({...node, files: [], read: () => null, status: 'unread' as const}));
  const all = [...nodes, ...lost];
  const wanted = all.filter(({name}) => wantsNode(name));
  const isPart = chosenNodes || wanted.length < all.length;
  return {
    origin,
    takenAt: takenAt ?? null,
    ...(serverVersion === undefined ? {} : {serverVersion}),
    api,
    problems,
    chosenNodes: isPart,
    nodes: wanted,
    ...(history === undefined ? {} : {history: () => history}),
  };
}
