import {type BundledNode, type BundleContent, refuseTarget, writeBundle} from '../../collect/bundle/write-bundle.ts';
import {ClusterReader, readServerVersion} from '../../collect/cluster/cluster-reader.ts';
import {readCluster} from '../../collect/cluster/read-cluster.ts';
import type {KubeApi} from '../../collect/kube/kube-api.ts';
import type {Transport} from '../../collect/node/transport.ts';
import type {PodObject, EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import {whyWithoutKubeProxy} from '../../model/node/node-facts.ts';
import {type Problem, type Snapshot, noObjects} from '../../model/snapshot.ts';
import {gracePeriod, type ReadTime, type RecordedHistory, type StateChange} from '../../model/state-history.ts';
import {systemClock} from '../clock.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';
import {FollowedServices} from '../follow-services.ts';
import {asUnread, clearLeftovers, nodeProblems, type ProgressLine, collectFrom} from '../nodes/node-intake.ts';
import {type NodeSource, nodeSource, type NodeSourceFlags, withCiliumSettings} from '../nodes/node-source.ts';
import type {OpenCluster} from '../open-cluster.ts';
import {randomBytes} from 'node:crypto';
import {UnwritableTarget} from '../../collect/bundle/bundle-target.ts';
import type {SnapshotRecord} from '../../collect/bundle/snapshot-record.ts';
import {plural} from '../../model/text.ts';
import type {NameKind} from '../../redact/names.ts';
import {Redaction, type RedactionSummary} from '../../redact/redaction.ts';
import {escapeText} from '../../render/renderer.ts';
import {wrongUse} from '../wrong-use.ts';

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
    serverVersion: serverVersion ?? undefined,
    chosenNodes: source.nodes.length < (reading.api.nodes ?? []).length,
    api: {...withCiliumSettings(reading.api, source), ...known},
    nodes: following(readAll({source, without, readTimes}, run), followed, recalled),
    close: () => followed.close(),
    history: () => recorded(followed, readTimes),
    problems: [...reading.problems, ...source.problems, ...problems, ...leftovers],
  };
}

async function readPods(api: KubeApi): Promise<{readonly pods: readonly PodObject[] | null; readonly problems: readonly Problem[]}> {
  const reader = new ClusterReader(api);
  const remedy = 'Get the right to list pods of all namespaces; without it the bundle holds those of kube-proxy only.';
  const pods = await reader.list({of: 'pods', path: '/api/v1/pods', remedy, isMinor: true});
  return {pods, problems: reader.problems};
}

/** Null if nothing changed while nodes were read. */
function recorded({history: {states}}: FollowedServices, readTimes: ReadonlyMap<string, ReadTime>): RecordedHistory | null {
  return states.changes.length === 0 ? null : {...states, nodes: Object.fromEntries([...readTimes].sort(([a], [b]) => (a < b ? -1 : 1)))};
}

/** Services are followed until the last node has been read, and the earlier states are known, or cannot be known. */
async function* following(
  nodes: AsyncIterable<BundledNode>,
  followed: FollowedServices,
  recalled: Promise<void>,
): AsyncIterable<BundledNode> {
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

async function* readAll({source, without, readTimes}: NodeReads, {flags, signal, progress}: CaptureRun): AsyncIterable<BundledNode> {
  const {transport, cilium} = source;
  const counters = flags.counters === true ? 'all' : undefined;
  const readable = source.nodes.filter(({name}) => !without.has(name));
  // The requested objects are known not to exist.
  for (const {name} of source.nodes) if (without.has(name)) yield {name, files: [], read: () => null, status: 'read'};
  const timed: Transport = {
    name: transport.name,
    open: (node, end) => {
      readTimes.set(node.name, {from: Date.now(), to: Date.now()});
      return transport.open(node, end);
    },
  };
  for await (const node of collectFrom({...source, transport: timed}, readable, {signal, progress, counters, cilium, log: 'all'})) {
    const {via, ...read} = node;
    const to = Date.now();
    readTimes.set(node.name, {from: readTimes.get(node.name)?.from ?? to, to});
    yield {...read, ...asUnread(node), via: via ?? undefined, problems: nodeProblems(node)};
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
    serverVersion,
    api,
    problems,
    chosenNodes: isPart,
    nodes: wanted,
    history: history === undefined ? undefined : () => history,
  };
}

interface WriteOptions {
  /** A directory, or a file that ends in `.tgz`. */
  readonly path: string;
  readonly redact: boolean;
  readonly toolVersion: string;
  readonly signal: AbortSignal;
}

/**
 * Writes a bundle. The redaction key is random and is discarded after the run. Throws a CLIError (exit 2) if the bundle cannot be written.
 * `redaction`: null when nothing was redacted.
 */
export async function writeCapture(capture: Capture, {path, redact, toolVersion, signal}: WriteOptions) {
  const redaction = redact ? new Redaction(randomBytes(32)) : null;
  const {origin, takenAt, serverVersion, ...content} = redaction === null ? capture : redactCapture(capture, redaction);
  try {
    const record = await writeBundle(path, {
      ...content,
      signal,
      record: {tool: {name: 'svc-trace', version: toolVersion}, takenAt, origin: redact ? null : origin, serverVersion, redacted: redact},
    });
    return {record, redaction: redaction?.summary() ?? null};
  } catch (error) {
    throw asWrongUse(error);
  } finally {
    capture.close?.();
  }
}

/** Refuses a bundle that could not be written in the end, before anything is read. Throws a CLIError (exit 2). */
export async function writableTarget(path: string): Promise<string> {
  try {
    refuseTarget(path);
    return path;
  } catch (error) {
    throw asWrongUse(error);
  }
}

function asWrongUse(error: unknown): unknown {
  return error instanceof UnwritableTarget ? wrongUse(error.message) : error;
}

/** Whether everything requested could be read, and it was more than API objects. */
export function isComplete({nodes, problems}: SnapshotRecord): boolean {
  const all = Object.values(nodes);
  return all.length > 0 && all.every(({status}) => status === 'read') && problems.every(({isMinor}) => isMinor);
}

/**
 * The capture without names and public addresses. API objects are redacted at once, nodes as they arrive.
 * @internal
 */
export function redactCapture(capture: Capture, redaction: Redaction): Capture {
  const {history, serverVersion} = capture;
  const version = plainVersion.exec(serverVersion ?? '')?.[0];
  return {
    origin: 'redacted',
    takenAt: capture.takenAt,
    serverVersion: version,
    chosenNodes: capture.chosenNodes,
    api: redaction.objects(capture.api),
    nodes: redactNodes(capture, redaction),
    problems: capture.problems.map(problem => redaction.problem(problem)),
    history: history === undefined ? undefined : () => redactHistory(history(), redaction),
  };
}

/** Without what follows it, which can be the name of a company. */
const plainVersion = /^v?\d+\.\d+(?:\.\d+)?(?![\w.])/;

async function* redactNodes({nodes, history}: Capture, redaction: Redaction): AsyncIterable<BundledNode> {
  for await (const node of nodes) {
    // The node may have chains of endpoints that no longer exist.
    redactHistory(history?.() ?? null, redaction);
    const {status, reason, remedy, problems = [], missing = []} = node;
    yield {
      ...redaction.node(node),
      status,
      reason: reason === undefined ? undefined : redaction.message(reason),
      remedy: remedy === undefined ? undefined : redaction.message(remedy),
      problems: problems.map(problem => redaction.problem(problem)),
      missing: missing.map(({file, reason: why}) => ({file, reason: redaction.message(why)})),
    };
  }
}

/** Redacts the objects of each change like those of the lists. The names that chains are derived from are learned from them, too. */
function redactHistory(history: RecordedHistory | null, redaction: Redaction): RecordedHistory | null {
  if (history === null) return null;
  const changes = history.changes.map((change): StateChange => {
    if (change.kind === 'Service') return {...change, before: service(change.before), now: service(change.now)};
    return {...change, before: slice(change.before), now: slice(change.now)};
  });
  const nodes = Object.entries(history.nodes).map(([name, time]) => [redaction.node({name, files: [], read: () => null}).name, time]);
  return {...history, changes, nodes: Object.fromEntries(nodes)};

  function service(object: ServiceObject | null): ServiceObject | null {
    return object === null ? null : (redaction.objects({...noObjects, services: [object]}).services?.[0] ?? null);
  }

  function slice(object: EndpointSliceObject | null): EndpointSliceObject | null {
    return object === null ? null : (redaction.objects({...noObjects, endpointSlices: [object]}).endpointSlices?.[0] ?? null);
  }
}

/** A summary of the written bundle, in a few lines. */
export function captureSummary(path: string, {nodes, problems}: SnapshotRecord, redaction: RedactionSummary | null): string {
  const all = Object.values(nodes);
  const unread = all.filter(({status}) => status === 'unread').length;
  const lines = [
    `${escapeText(path)}: ${all.length === 0 ? 'INCOMPLETE: no nodes were found' : plural(all.length, 'node')}${unread === 0 ? '' : `, ${unread} not read`}`,
    ...(unread + problems.length === 0 ? [] : ['snapshot.json lists what could not be read and why']),
    ...(redaction === null ? [] : redactionLines(redaction)),
  ];
  return `${lines.join('\n')}\n`;
}

const kinds: Readonly<Record<NameKind, string>> = {
  namespace: 'namespace',
  service: 'Service',
  pod: 'pod',
  node: 'node',
  word: 'other name',
};

function redactionLines({names, addresses, hardwareAddresses, unknownChains, leftOut}: RedactionSummary): readonly string[] {
  const replaced = [
    ...Object.entries(kinds).map(([kind, word]) => plural(names.get(kind as NameKind) ?? 0, word)),
    plural(addresses, 'public address or network', 'public addresses and networks'),
    plural(hardwareAddresses, 'hardware address', 'hardware addresses'),
  ];
  return [
    `replaced: ${replaced.join(', ')}`,
    ...(unknownChains === 0 ? [] : [`${plural(unknownChains, 'chain')} of unknown Services or endpoints got names of the same form`]),
    ...(leftOut.length === 0 ? [] : [`left out: ${leftOut.map(escapeText).join(', ')}`]),
    'kept: private addresses, names of ports and interfaces, versions, times. Review the bundle before you share it.',
  ];
}
