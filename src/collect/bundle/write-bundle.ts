import {setImmediate} from 'node:timers/promises';
import {append} from '../../model/lists.ts';
import type {ApiObjects, NodeDump, Problem} from '../../model/snapshot.ts';
import type {RecordedHistory} from '../../model/state-history.ts';
import {errorText} from '../../model/text.ts';
import {archiveTarget, type BundleTarget, UnwritableTarget, directoryTarget} from './bundle-target.ts';
import {historyFile, historyText, type NodeRecord, type SnapshotRecord} from './snapshot-record.ts';
import {accessSync, constants, existsSync, readdirSync, statSync} from 'node:fs';
import {dirname, resolve} from 'node:path';

/** The content of a bundle. */
export interface BundleContent {
  /** What is known at the start; nodes and problems are added as they arrive. */
  readonly record: Omit<SnapshotRecord, 'nodes' | 'problems' | 'scope'>;
  readonly api: ApiObjects;
  /** Each is written and dropped before the next one is requested. */
  readonly nodes: AsyncIterable<BundledNode> | Iterable<BundledNode>;
  /** Only some nodes of the cluster were requested. */
  readonly chosenNodes?: boolean;
  /** Problems of the API; those of nodes come with the nodes. */
  readonly problems: readonly Problem[];
  /** The states that Services had until now, requested when all nodes have arrived; null if none changed. */
  readonly history?: () => RecordedHistory | null;
  /** Ends the writing between two files: nothing is left of the bundle. */
  readonly signal?: AbortSignal;
}

/** A node, and how it was read. */
export interface BundledNode extends NodeDump, Omit<Partial<NodeRecord>, 'via'> {
  readonly problems?: readonly Problem[];
}

/**
 * Writes a bundle to a directory or an archive, and resolves to its record. The target does not exist until everything is written, and
 * nothing is left behind on failure. Rejects with an UnwritableTarget if the target exists or cannot be written.
 */
export async function writeBundle(path: string, content: BundleContent): Promise<SnapshotRecord> {
  const target = await openTarget(path);
  let isDone = false;
  try {
    const record = await writeAll(target, path, content);
    await attempt(path, () => target.finish());
    isDone = true;
    return record;
  } finally {
    if (!isDone) await target.abandon();
  }
}

async function writeAll(target: BundleTarget, path: string, content: BundleContent): Promise<SnapshotRecord> {
  const write = async (file: string, bytes: Buffer): Promise<void> => {
    // Without this turn, the signals of a process that redacts file after file are not delivered.
    await setImmediate();
    content.signal?.throwIfAborted();
    await attempt(path, () => target.write(file, bytes));
  };
  for (const [list, about] of Object.entries(apiFiles)) {
    const items = content.api[list as keyof typeof apiFiles];
    if (items !== null && items !== undefined) await write(about.file, apiListText(items, about));
  }
  const nodes = new Map<string, NodeRecord>();
  const problems = [...content.problems];
  for await (const node of content.nodes) {
    append(problems, node.problems ?? []);
    const refusal = whyNoFolder(node.name);
    if (refusal === null) await writeNode(node, write);
    else problems.push({message: refusal});
    if (refusal === null)
      nodes.set(node.name, {
        status: node.status ?? 'read',
        reason: node.reason,
        remedy: node.remedy,
        via: node.via ?? undefined,
        ...(node.missing === undefined || node.missing.length === 0 ? {} : {missing: node.missing}),
      });
  }
  const history = content.history?.() ?? null;
  if (history !== null) await write(historyFile, historyText(history));
  const record: SnapshotRecord = {...content.record, ...scopeOf(content), nodes: sorted(nodes), problems};
  await write('snapshot.json', Buffer.from(`${JSON.stringify(record, null, 2)}\n`));
  return record;
}

async function writeNode(node: BundledNode, write: (file: string, bytes: Buffer) => Promise<void>): Promise<void> {
  for (const file of node.files) {
    const bytes = whyNoFolder(file) === null ? node.read(file) : null;
    if (bytes !== null) await write(`nodes/${node.name}/${file}`, bytes);
  }
}

/** Node names come from the cluster, or from an untrusted bundle: none may lead out of the bundle. */
function whyNoFolder(name: string): string | null {
  const isSafe = /^[^/\\:*?"<>|\p{Cc}]+$/u.test(name) && !/^\.*$/.test(name) && Buffer.byteLength(name) <= 255;
  return isSafe ? null : `a node is left out: its name cannot be that of a folder: ${JSON.stringify(name)}`;
}

function scopeOf({api: {namespaces, podsOf, unsure}, chosenNodes}: BundleContent): Pick<SnapshotRecord, 'scope'> {
  const scope = {
    namespaces,
    podsOf: podsOf && [...podsOf].sort(),
    unsure: unsure && [...unsure].sort(),
    chosenNodes: chosenNodes === true ? (true as const) : undefined,
  };
  return Object.values(scope).every(part => part === undefined) ? {} : {scope};
}

function sorted(nodes: ReadonlyMap<string, NodeRecord>): Readonly<Record<string, NodeRecord>> {
  return Object.fromEntries([...nodes].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A full disk, or a folder without write permission. */
async function attempt<T>(path: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (error instanceof UnwritableTarget) throw error;
    throw new UnwritableTarget(`cannot write to ${path}: ${errorText(error)}`, {cause: error});
  }
}

/** The kinds of objects in a bundle, by the file that holds them. */
const apiFiles = {
  services: {file: 'api/services.json', apiVersion: 'v1', kind: 'Service'},
  endpointSlices: {file: 'api/endpointslices.json', apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice'},
  endpoints: {file: 'api/endpoints.json', apiVersion: 'v1', kind: 'Endpoints'},
  nodes: {file: 'api/nodes.json', apiVersion: 'v1', kind: 'Node'},
  pods: {file: 'api/pods.json', apiVersion: 'v1', kind: 'Pod'},
  configMaps: {file: 'api/configmaps.json', apiVersion: 'v1', kind: 'ConfigMap'},
  serviceCIDRs: {file: 'api/servicecidrs.json', apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR'},
  networkPolicies: {file: 'api/networkpolicies.json', apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy'},
} as const;

/**
 * A list as `kubectl get … -A -o json` prints it, without what only the API server and `kubectl apply` need: `managedFields` and the last
 * applied configuration. Written object by object: a list can be longer than the longest possible string.
 */
function apiListText(items: readonly object[], {apiVersion, kind}: {readonly apiVersion: string; readonly kind: string}): Buffer {
  const parts = [Buffer.from('{\n    "apiVersion": "v1",\n    "items": [')];
  for (const [index, item] of items.entries()) {
    const text = JSON.stringify({apiVersion, kind, ...withoutBallast(item)}, null, 4);
    parts.push(Buffer.from(`${index === 0 ? '' : ','}\n        ${text.replaceAll('\n', '\n        ')}`));
  }
  parts.push(
    Buffer.from(
      `${items.length === 0 ? '' : '\n    '}],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n`,
    ),
  );
  return Buffer.concat(parts);
}

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

function withoutBallast(item: object): object {
  const {metadata} = item as {readonly metadata?: Readonly<Record<string, unknown>>};
  if (metadata === undefined) return item;
  const {managedFields: _, annotations, ...rest} = metadata;
  if (typeof annotations !== 'object' || annotations === null) return {...item, metadata: rest};
  const {[lastApplied]: __, ...others} = annotations as Readonly<Record<string, unknown>>;
  return {...item, metadata: {...(Object.keys(others).length === 0 ? {} : {annotations: others}), ...rest}};
}

/**
 * A directory, or an archive if the path ends in `.tgz` or `.tar.gz`. Existing files are never overwritten: throws an UnwritableTarget for
 * a file and for a directory that is not empty.
 */
async function openTarget(path: string): Promise<BundleTarget> {
  refuseTarget(path);
  try {
    return await (isArchive(path) ? archiveTarget : directoryTarget)(path);
  } catch (error) {
    throw new UnwritableTarget(`cannot write to ${path}: ${errorText(error)}`, {cause: error});
  }
}

/** Throws an UnwritableTarget where nothing could be written in the end. Changes nothing. */
export function refuseTarget(path: string): void {
  if (path === '') throw new UnwritableTarget('a bundle needs a name: a directory, or a file that ends in .tgz');
  refuseExisting(path);
  try {
    let folder = resolve(path);
    while (!existsSync(folder)) folder = dirname(folder);
    if (!statSync(folder).isDirectory()) throw new Error('a part of the path is not a directory');
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw new UnwritableTarget(`cannot write to ${path}: ${errorText(error)}`, {cause: error});
  }
}

function isArchive(path: string): boolean {
  return /\.(?:tgz|tar\.gz)$/.test(path);
}

const otherArchive = /\.(?:zip|tar|gz|bz2|xz|zst|7z|rar|tbz2?|txz|json)$/i;

function refuseExisting(path: string): void {
  if (path === '-')
    throw new UnwritableTarget('a bundle cannot be written to standard output: name a directory, or a file that ends in .tgz');
  if (!isArchive(path) && otherArchive.test(path))
    throw new UnwritableTarget(`${path}: a bundle is a directory or a .tgz archive. Name a file that ends in .tgz`);
  if (!existsSync(path)) return;
  if (isArchive(path) || !statSync(path).isDirectory())
    throw new UnwritableTarget(`${path} is there already: remove it or choose another name`);
  if (readdirSync(path).length > 0) throw new UnwritableTarget(`the directory ${path} is not empty: remove it or choose another name`);
}
