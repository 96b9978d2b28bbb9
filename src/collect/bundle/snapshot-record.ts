import {type ApiObjects, isServiceList, type Problem, type UnreadNode} from '../../model/snapshot.ts';
import {pathTree} from '../../model/path-tree.ts';
import {asFields, hasFields, type NeededFields, readFields, readJson} from '../../parse/attempt.ts';
import type {RecordedHistory, StateChange} from '../../model/state-history.ts';
import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import {usableItems, shapes} from '../objects/api-shapes.ts';

/** The content of `snapshot.json` of a bundle: when and how it was captured, and what could not be read. */
export interface SnapshotRecord {
  readonly tool: {readonly name: string; readonly version: string};
  /** RFC 3339; null if unknown. */
  readonly takenAt: string | null;
  /** The context and the server, or the bundle that it was made from; null if redacted. */
  readonly origin: string | null;
  /** Of the API server, such as `v1.36.2`. Left out if it is not known, as by earlier versions of svc-trace. */
  readonly serverVersion?: string | undefined;
  readonly redacted: boolean;
  /** API objects that were read in part, as in `ApiObjects`. Left out if all were read. */
  readonly scope?: {
    readonly namespaces?: readonly string[];
    readonly podsOf?: readonly string[];
    readonly unsure?: readonly string[];
    /** Only the nodes listed below were requested: the others are not missing. */
    readonly chosenNodes?: true;
  };
  /** All nodes that were to be read, by name. */
  readonly nodes: Readonly<Record<string, NodeRecord>>;
  readonly problems: readonly Problem[];
}

export interface NodeRecord {
  /** `partial`: see the problems; `unread`: it has no dump of rules. */
  readonly status: 'read' | 'partial' | 'unread';
  /** For an unread node: why, and what to do. */
  readonly reason?: string;
  readonly remedy?: string;
  /** How the node was reached, as text. */
  readonly via?: string;
  /** Missing files, and why. */
  readonly missing?: readonly {readonly file: string; readonly reason: string}[];
}

/** The part of `snapshot.json` that a later run needs. */
export interface ReadRecord {
  readonly takenAt?: string;
  readonly serverVersion?: string;
  /** Nodes that were read, including those without files. */
  readonly read: readonly string[];
  /** How these nodes were reached, as text. */
  readonly via: ReadonlyMap<string, string>;
  /** The missing files of these nodes, and why. */
  readonly missing: ReadonlyMap<string, NonNullable<NodeRecord['missing']>>;
  readonly unread: readonly UnreadNode[];
  readonly problems: readonly Problem[];
  readonly scope: Pick<ApiObjects, 'namespaces' | 'podsOf' | 'unsure'>;
  /** See `SnapshotRecord`. */
  readonly chosenNodes: boolean;
}

/** Reads `snapshot.json`. Bundles made by hand have none, or an incomplete one: missing fields are empty. */
export function readSnapshotRecord(content: Buffer | null): ReadRecord {
  if (content === null) return nothing;
  const record = readJson(content.toString('utf8'));
  if (typeof record !== 'object' || record === null)
    return {...nothing, problems: [{message: 'snapshot.json cannot be read: what failed when the bundle was made is not known'}]};
  const {takenAt, serverVersion, nodes, problems, scope} = record as Readonly<Record<string, unknown>>;
  return {
    ...(typeof takenAt === 'string' && rfc3339.test(takenAt) ? {takenAt} : {}),
    ...(typeof serverVersion === 'string' && /^[\w.+~-]{1,64}$/.test(serverVersion) ? {serverVersion} : {}),
    ...readNodes(nodes),
    scope: readScope(scope),
    chosenNodes: asFields(scope)['chosenNodes'] === true,
    problems: Array.isArray(problems) ? problems.flatMap(toProblem) : [],
  };
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

const nothing: ReadRecord = {read: [], via: new Map(), missing: new Map(), unread: [], problems: [], scope: {}, chosenNodes: false};

function readNodes(value: unknown): Pick<ReadRecord, 'read' | 'via' | 'missing' | 'unread'> {
  const nodes = Object.entries(asFields(value)).map(
    ([name, node]) => ({name, ...asFields(node)}) as {name: string; [field: string]: unknown},
  );
  return {
    read: nodes.filter(({status}) => status !== 'unread').map(({name}) => name),
    via: new Map(nodes.flatMap(({name, via}) => (typeof via === 'string' ? [[name, via]] : []))),
    missing: new Map(nodes.map(({name, missing}) => [name, readMissing(missing)])),
    unread: nodes
      .filter(({status}) => status === 'unread')
      .map(({name, reason, remedy}) => ({name, reason: textOr(reason, notSaid), remedy: textOr(remedy, readAgain)})),
  };
}

function readMissing(value: unknown): NonNullable<NodeRecord['missing']> {
  return (Array.isArray(value) ? value : [])
    .map(asFields)
    .flatMap(({file, reason}) => (typeof file === 'string' && typeof reason === 'string' ? [{file, reason}] : []));
}

function readScope(value: unknown): ReadRecord['scope'] {
  const {namespaces, podsOf, unsure} = asFields(value);
  const strings = (list: unknown): readonly string[] | null => (Array.isArray(list) ? list.filter(item => typeof item === 'string') : null);
  const [places, services, doubtful] = [strings(namespaces), strings(podsOf), strings(unsure)];
  return {
    namespaces: places ?? undefined,
    podsOf: services === null ? undefined : new Set(services),
    unsure: doubtful === null ? undefined : new Set(doubtful),
  };
}

const notSaid = 'the bundle does not say why';
const readAgain = 'Read the node in another way, or name the nodes to check with --node.';

function textOr(value: unknown, otherwise: string): string {
  return typeof value === 'string' && value !== '' ? value : otherwise;
}

function toProblem(value: unknown): readonly Problem[] {
  const {node, message, remedy, isMinor, list} = asFields(value);
  if (typeof message !== 'string') return [];
  return [
    {
      message,
      ...(typeof node === 'string' ? {node} : {}),
      ...(typeof remedy === 'string' ? {remedy} : {}),
      ...(isMinor === true ? {isMinor} : {}),
      ...(isServiceList(list) ? {list} : {}),
    },
  ];
}

/** The states that Services had while the nodes were read. */
export const historyFile = 'api/history.json';

export function historyText(history: RecordedHistory): Buffer {
  return Buffer.from(`${JSON.stringify(history, null, 1)}\n`);
}

/** One invalid change makes the whole history unusable: with a state left out, a healthy node would have findings. */
export function readHistory(content: Buffer | null): {readonly history?: RecordedHistory; readonly problems: readonly Problem[]} {
  if (content === null) return {problems: []};
  const history = parseHistory(content.toString('utf8'));
  if (history === null) return {problems: [{message: `${historyFile} cannot be read: states of Services are not known`}]};
  return {history, problems: []};
}

function parseHistory(text: string): RecordedHistory | null {
  const {since, changes, nodes} = readFields(text);
  if (typeof since !== 'number' || !Array.isArray(changes) || !hasFields(nodes, fieldsOfNodes) || !changes.every(isChange)) return null;
  return {since, changes, nodes: nodes as RecordedHistory['nodes']};
}

const fieldsOfNodes = pathTree<NeededFields>(['number', '*.{from to}']);

function isChange(value: unknown): value is StateChange {
  const {kind, at, after, before, now} = asFields(value);
  if ((kind !== 'Service' && kind !== 'EndpointSlice') || typeof at !== 'number') return false;
  if (after !== undefined && typeof after !== 'number') return false;
  return [before, now].every(object => object === null || isUsable(kind, object)) && (before !== null || now !== null);
}

function isUsable(kind: StateChange['kind'], object: unknown): boolean {
  const {items} =
    kind === 'Service'
      ? usableItems<ServiceObject>(historyFile, [object], shapes.services)
      : usableItems<EndpointSliceObject>(historyFile, [object], shapes.endpointSlices);
  return items.length === 1;
}
