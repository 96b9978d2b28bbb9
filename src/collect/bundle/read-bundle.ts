import {constants} from 'node:buffer';
import {existsSync, globSync, readdirSync} from 'node:fs';
import {basename, dirname, join, resolve} from 'node:path';
import process from 'node:process';
import type {Readable} from 'node:stream';
import {serviceNameLabel} from '../../model/endpoint.ts';
import {append, pushTo} from '../../model/lists.ts';
import type {ApiObjects, NodeDump, Problem, Snapshot} from '../../model/snapshot.ts';
import {errorText, namespacedName, plural, shellWord, someOf} from '../../model/text.ts';
import {attempt, parseJson} from '../../parse/attempt.ts';
import {plainText} from '../../parse/lines.ts';
import {answerOfText, noDump, snapshotOfText} from '../../parse/pasted/split-text.ts';
import {ofServices} from '../cluster/cluster-reader.ts';
import {dropGarbage, type ListName, type ObjectOf, type Shape, shapes, usableItems} from '../objects/api-shapes.ts';
import {maxSizeOf, readFileOrPipe} from '../text-file.ts';
import {archiveFiles, type BundleFiles, defaultArchiveLimit, directoryFiles, isDirectory, mebibytes} from './bundle-files.ts';
import {historyFile, readHistory, type ReadRecord, readSnapshotRecord} from './snapshot-record.ts';

/** A bundle that cannot be used at all; the message says what was tried and what to do. */
export class UnreadableBundle extends Error {}

/**
 * Reads a bundle: a directory, a `.tgz`, `-` for standard input, or a file with only a dump of iptables-save or nft. Throws
 * UnreadableBundle if nothing can be used; parts that cannot be read become problems of the Snapshot.
 */
export async function readBundle(path: string, {archiveLimit = defaultArchiveLimit} = {}): Promise<Snapshot> {
  const opened = await open(path, archiveLimit);
  if (!('dump' in opened)) {
    const inside = bundlesIn(path);
    if (inside.length > 0) throw new UnreadableBundle(severalBundles(path, inside));
    const whole = bundleAround(path);
    if (whole !== null) throw new UnreadableBundle(`${path} is a part of the bundle ${whole}: --from ${shellWord(whole)}`);
    return await snapshotOf(path, opened);
  }
  if (opened.dump.length === 0) throw new UnreadableBundle(path === '-' ? emptyInput : `${path} is empty`);
  const snapshot = snapshotOfText(path === '-' ? 'stdin' : path, opened.dump);
  if (snapshot === null)
    throw new UnreadableBundle(`${path} ${isManifest(opened.dump) ? (answerOfText(opened.dump) ?? noRules(path)) : noDump(opened.dump)}`);
  return {...snapshot, origin: path};
}

const emptyInput = 'standard input is empty: pipe a bundle or a dump into it, as in "iptables-save | kubectl svc-trace packet --from - …"';

/** The bundles in a folder that is none itself, or further below it, where only their objects tell them from sources of programs. */
function bundlesIn(folder: string): readonly string[] {
  if (folder === '-' || !isDirectory(folder) || isBundle(folder)) return [];
  const paths = readdirSync(folder).map(name => join(folder, name));
  const own = paths.filter(path => (/\.(?:tgz|tar\.gz|tar)$/.test(path) ? !isDirectory(path) : isDirectory(path) && isBundle(path))).sort();
  if (own.length > 0) return own;
  const below = globSync('{*,*/*}/*/api/services.json', {cwd: folder, exclude: name => basename(name) === 'node_modules'});
  return below.map(file => join(folder, dirname(dirname(file)))).sort();
}

function isBundle(path: string): boolean {
  return ['api', 'nodes', 'snapshot.json'].some(name => existsSync(join(path, name)));
}

/** The bundle whose `api`, `nodes` or folder of a node this is; null if it is none. */
function bundleAround(folder: string): string | null {
  if (folder === '-' || !isDirectory(folder) || isBundle(folder)) return null;
  const parent = dirname(resolve(folder));
  if (['api', 'nodes'].includes(basename(resolve(folder)))) return isBundle(parent) ? parent : null;
  return basename(parent) === 'nodes' && isBundle(dirname(parent)) ? dirname(parent) : null;
}

/** Objects of Kubernetes, as YAML or JSON. */
function isManifest(content: Buffer): boolean {
  const text = content.toString('utf8', 0, 100_000);
  return /^\s*(?:- )?"?apiVersion"?\s*:/m.test(text) && /^\s*(?:- )?"?kind"?\s*:/m.test(text);
}

function noRules(path: string): string {
  return `holds objects of Kubernetes and no rules: "kubectl svc-trace rules -f ${shellWord(path)} --for-node NODE" prints the rules that kube-proxy writes for them, "kubectl svc-trace preview -f ${shellWord(path)}" what they would change`;
}

function severalBundles(folder: string, bundles: readonly string[]): string {
  const [first = '', second] = bundles;
  const compare = second === undefined ? '' : `. "kubectl svc-trace diff ${shellWord(first)} ${shellWord(second)}" compares two`;
  return `${folder} is a folder of ${plural(bundles.length, 'bundle')}: ${someOf(bundles)}. Name ${second === undefined ? 'it' : 'one'}, as in --from ${shellWord(first)}${compare}`;
}

async function open(path: string, archiveLimit: number): Promise<BundleFiles | {readonly dump: Buffer}> {
  try {
    if (path !== '-' && isDirectory(path)) return directoryFiles(path);
    const limit = Math.max(maxText, archiveLimit / 4);
    const content = path === '-' ? await readAll(process.stdin, limit) : await readFileOrPipe(path, limit);
    if (content[0] === 0x1f && content[1] === 0x8b) return await archiveFiles(content, archiveLimit);
    if (content.toString('latin1', 257, 262) === 'ustar') return await archiveFiles(content, archiveLimit);
    if (content.length > constants.MAX_STRING_LENGTH) throw new Error(tooLargeText(content.length));
    return {dump: plainText(content)};
  } catch (error) {
    const reason = errorText(error);
    const isTruncated = /unexpected end of file|truncated/i.test(reason);
    throw new UnreadableBundle(`cannot read the bundle ${path}: ${isTruncated ? 'the archive is truncated: copy it again' : reason}`, {
      cause: error,
    });
  }
}

async function readAll(stream: Readable, limit: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of stream) {
    parts.push(Buffer.from(part as Uint8Array));
    length += (part as Uint8Array).length;
    if (length > limit) throw new Error(`it has more than ${mebibytes(limit)}`);
  }
  return Buffer.concat(parts);
}

const maxText = constants.MAX_STRING_LENGTH;

async function snapshotOf(origin: string, files: BundleFiles): Promise<Snapshot> {
  const list = <Name extends ListName>(name: Name): ApiList<ObjectOf<Name>> => {
    const file = `api/${name.toLowerCase()}.json`;
    const size = files.sizeOf(file);
    const read =
      size > constants.MAX_STRING_LENGTH
        ? unusable(`${file} was not read: ${tooLargeText(size)}`)
        : readApiList<ObjectOf<Name>>(file, () => files.readText(file), shapes[name]);
    if (read.items !== null) return read;
    const remedy = 'Write the file again: nothing of it was read.';
    return {...read, problems: read.problems.map(problem => ({...problem, remedy, ...ofServices(name)}))};
  };
  const record = readSnapshotRecord(files.read('snapshot.json'));
  const nodes = nodeDumps(files, record);
  // The largest list is the first: garbage is collected while it is parsed, which visits the objects that exist.
  const endpointSlices = list('endpointSlices');
  // Only now, because until then the text of the list takes memory too.
  const dumpRead = readLargeDump(files, nodes);
  const services = list('services');
  const endpoints = list('endpoints');
  const others = {
    nodes: list('nodes'),
    pods: list('pods'),
    configMaps: list('configMaps'),
    serviceCIDRs: list('serviceCIDRs'),
    networkPolicies: list('networkPolicies'),
  };
  const problems = [services, endpointSlices, endpoints, ...Object.values(others)].flatMap(read => read.problems);
  const isBlank = others.nodes.items?.length === 0 && nodes.length > 0;
  if (isBlank && !hasGaps(others.nodes.gaps)) problems.push({message: 'api/nodes.json has no Nodes, and the bundle has files of nodes'});
  const objects = {
    services: services.items,
    endpointSlices: endpointSlices.items,
    endpoints: endpoints.items,
    nodes: isBlank ? null : others.nodes.items,
    lacksNodes: hasGaps(others.nodes.gaps),
    pods: others.pods.items,
    configMaps: others.configMaps.items,
    serviceCIDRs: others.serviceCIDRs.items,
    networkPolicies: others.networkPolicies.items,
    ...record.scope,
  };
  const api = acrossGaps(objects, {services: services.gaps, endpointSlices: endpointSlices.gaps, endpoints: endpoints.gaps});
  append(
    problems,
    [...(api.unsure ?? [])].map(name => ({message: `${name} was not checked: not all of its endpoints could be read`})),
  );
  if (nodes.every(node => node.files.length === 0) && api.services === null) {
    const cause = problems.map(({message}) => message).join('; ');
    throw new UnreadableBundle(
      `${origin} is no bundle: it has neither api/services.json nor nodes/NODE/iptables-save${cause === '' ? '' : ` (${cause})`}`,
    );
  }
  append(
    problems,
    files.outside.map(path => ({message: `${path} was not read: it is a link out of the bundle. Copy the file in its place`})),
  );
  const {takenAt, serverVersion} = record;
  const {history, problems: ofHistory} = readHistory(files.read(historyFile));
  append(problems, ofHistory);
  await dumpRead;
  const unread = record.unread.filter(({name}) => !nodes.some(node => node.name === name && node.files.some(isRuleDump)));
  return {
    origin,
    api,
    problems: [...record.problems, ...problems],
    nodes: nodes.filter(({name}) => !unread.some(node => node.name === name)),
    ...(unread.length === 0 ? {} : {unread}),
    takenAt,
    serverVersion,
    history,
    ...(record.chosenNodes ? {chosenNodes: true as const} : {}),
  };
}

/** A file that could not be read at the time may have been added by hand. */
function isRuleDump(file: string): boolean {
  return /^nft(?:-ruleset)?\.json$/.test(file) || /^ip6?tables(?:-legacy|-nft)?-save$/.test(file);
}

/** The dump of the only node is read while objects are parsed. Of several nodes, it is not known which are wanted. */
async function readLargeDump(files: BundleFiles, nodes: readonly NodeDump[]): Promise<void> {
  const [node] = nodes;
  if (node === undefined || nodes.length > 1) return;
  const dumps = node.files.filter(isRuleDump).map(file => `nodes/${node.name}/${file}`);
  const large = dumps.filter(path => files.sizeOf(path) >= largeDump).sort((a, b) => files.sizeOf(b) - files.sizeOf(a));
  if (large[0] !== undefined) await files.readAhead(large[0]);
}

/** In bytes. A smaller file is read in some milliseconds. */
const largeDump = 4 << 20;

/** `read` are the nodes that were read: one without files, such as a Windows node, is included. */
function nodeDumps(files: BundleFiles, {read, via, missing}: Pick<ReadRecord, 'read' | 'via' | 'missing'>): readonly NodeDump[] {
  const byNode = new Map<string, string[]>(read.map(node => [node, []]));
  for (const path of files.paths) {
    if (!path.startsWith('nodes/')) continue;
    const [, node = '', file = '', more] = path.split('/');
    if (node !== '' && file !== '' && more === undefined) pushTo(byNode, node, file);
  }
  return [...byNode]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, all]) => {
      const tooLarge = all.flatMap(file => {
        const size = files.sizeOf(`nodes/${name}/${file}`);
        const most = maxSizeOf(file);
        return size > most ? [{file, reason: tooLargeText(size, most)}] : [];
      });
      const names = tooLarge.length === 0 ? all : all.filter(file => !tooLarge.some(other => other.file === file));
      return {
        name,
        files: names,
        via: via.get(name) ?? null,
        missing: [...(missing.get(name) ?? []), ...tooLarge],
        read: file => (names.includes(file) ? files.read(`nodes/${name}/${file}`) : null),
      };
    });
}

function tooLargeText(bytes: number, most: number = constants.MAX_STRING_LENGTH): string {
  return `it has ${mebibytes(bytes)}, and of one file at most ${mebibytes(most)} are read`;
}

interface ApiList<T> {
  /** Null if the file does not exist or cannot be read at all. */
  readonly items: readonly T[] | null;
  readonly problems: readonly Problem[];
  readonly gaps: Gaps;
}

/**
 * Reads a list as `kubectl get -o json` prints it. Items without a name or of another shape are left out and reported. `read` returns the
 * content of the file, which is not kept, because it can be larger than the objects.
 * @internal
 */
export function readApiList<T>(file: string, read: () => string | null, shape: Shape): ApiList<T> {
  const {parsed, size} = parsedContent(read());
  if (size >= largeSize) dropGarbage();
  if (parsed === null) return unusable();
  if (parsed instanceof Error)
    return unusable(
      `${file} is not valid JSON: ${parsed.message.replace(/ is not valid JSON$/, '')}. Was the file truncated? Write it again with: kubectl get … -A -o json`,
    );
  const list = itemsOf(parsed);
  if (list === null) return unusable(`${file} holds no list: it has no "items". Write it with: kubectl get … -A -o json`);
  const others = kindsBeside(file, [parsed, ...list]);
  if (others.length > 0) return unusable(`${file} was not read: it holds objects of another kind (${others.join(', ')})`);
  const usable = usableItems<T>(file, list, shape);
  const problems = [...usable.problems];
  const more = continuation(parsed);
  if (more)
    problems.push({
      message: `${file} is only the first page of a longer list (metadata.continue is set): what is missing here may be on the next page`,
    });
  return {items: usable.items, problems, gaps: {leftOut: usable.leftOut, isTruncated: more}};
}

function unusable(message?: string): Pick<ApiList<never>, 'problems' | 'gaps'> & {readonly items: null} {
  return {items: null, gaps: noGaps, problems: message === undefined ? [] : [{message}]};
}

/** In characters. Collecting garbage visits all objects that were read before: this takes 0.1 s after 250,000 endpoints. */
const largeSize = 16 << 20;

/** Null if there is no file; `size` is in characters. */
function parsedContent(text: string | null): {readonly parsed: NonNullable<unknown> | null; readonly size: number} {
  if (text === null) return {parsed: null, size: 0};
  // The word null is valid JSON, but not a list.
  return {parsed: attempt(() => parseJson(text)) ?? {}, size: text.length};
}

function itemsOf(value: unknown): readonly unknown[] | null {
  if (typeof value !== 'object' || value === null) return null;
  if ('items' in value && Array.isArray(value.items)) return value.items;
  // Some tools print an empty list as null.
  return 'items' in value && value.items === null ? [] : null;
}

/** The kinds that a list and its items name and that are not those of the file: `Service`, `ServiceList` and `List` are of `services.json`. */
function kindsBeside(file: string, all: readonly unknown[]): readonly string[] {
  const kinds = new Set(all.map(one => (typeof one === 'object' && one !== null && 'kind' in one ? one.kind : undefined)));
  const name = /([^/]*)\.json$/.exec(file)?.[1] ?? '';
  const isOther = (kind: unknown): kind is string => {
    const own = typeof kind === 'string' ? kind.replace(/List$/, '').toLowerCase() : '';
    return own !== '' && ![own, `${own}s`, own.replace(/y$/, 'ies')].includes(name);
  };
  return [...kinds].filter(isOther).slice(0, 3);
}

function continuation(value: unknown): boolean {
  const metadata = (value as {metadata?: {continue?: unknown}}).metadata;
  return typeof metadata?.continue === 'string' && metadata.continue !== '';
}

/** What is missing from a list of API objects. */
interface Gaps {
  /** Unusable items, unchanged. */
  readonly leftOut: readonly unknown[];
  /** It is the first page of a longer list. */
  readonly isTruncated: boolean;
}

const noGaps: Gaps = {leftOut: [], isTruncated: false};

/**
 * Marks objects that may exist although they are not in the lists, so that nothing is reported as stale, or as without endpoints, because
 * of it. If a slice was left out, the endpoints of its Service are incomplete; in truncated lists every Service may be incomplete.
 */
function acrossGaps(api: ApiObjects, gaps: {readonly services: Gaps; readonly endpointSlices: Gaps; readonly endpoints: Gaps}): ApiObjects {
  const {services, endpointSlices, endpoints} = gaps;
  const slices = isUnknown(endpointSlices, serviceOfSlice) ? null : api.endpointSlices;
  const whole = isUnknown(endpoints, serviceOfEndpoints) ? null : api.endpoints;
  const unsure = new Set([
    ...(api.unsure ?? []),
    ...endpointSlices.leftOut.flatMap(serviceOfSlice),
    ...endpoints.leftOut.flatMap(serviceOfEndpoints),
  ]);
  const lacks = [services, endpointSlices, endpoints].some(hasGaps);
  return {...api, endpointSlices: slices, endpoints: whole, ...(unsure.size > 0 ? {unsure} : {}), ...(lacks ? {namespaces: []} : {})};
}

function hasGaps({leftOut, isTruncated}: Gaps): boolean {
  return isTruncated || leftOut.length > 0;
}

/** It is unknown which Services the missing endpoints belong to. */
function isUnknown({leftOut, isTruncated}: Gaps, serviceOf: (item: unknown) => readonly string[]): boolean {
  return isTruncated || leftOut.some(item => serviceOf(item).length === 0);
}

interface Named {
  readonly metadata?: {readonly namespace?: unknown; readonly name?: unknown; readonly labels?: {readonly [name: string]: unknown}};
}

function serviceOfSlice(item: unknown): readonly string[] {
  const {metadata} = (item ?? {}) as Named;
  return serviceName(metadata?.namespace, metadata?.labels?.[serviceNameLabel]);
}

function serviceOfEndpoints(item: unknown): readonly string[] {
  const {metadata} = (item ?? {}) as Named;
  return serviceName(metadata?.namespace, metadata?.name);
}

/** Empty if one of them is unknown. */
function serviceName(namespace: unknown, name: unknown): readonly string[] {
  return typeof name === 'string' && (namespace === undefined || typeof namespace === 'string') ? [namespacedName({namespace, name})] : [];
}
