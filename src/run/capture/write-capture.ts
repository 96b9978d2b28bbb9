import {randomBytes} from 'node:crypto';
import {Errors} from '@oclif/core';
import {UnwritableTarget} from '../../collect/bundle/directory-target.ts';
import {refuseTarget, type BundledNode, writeBundle} from '../../collect/bundle/write-bundle.ts';
import type {SnapshotRecord} from '../../collect/bundle/snapshot-record.ts';
import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import {noObjects} from '../../model/snapshot.ts';
import type {RecordedHistory, StateChange} from '../../model/state-history.ts';
import {plural} from '../../model/text.ts';
import type {NameKind} from '../../redact/names.ts';
import {Redaction, type RedactionSummary} from '../../redact/redaction.ts';
import {escapeText} from '../../render/terminal-text.ts';
import type {Capture} from './capture-cluster.ts';

interface WriteOptions {
  /** A directory, or a file that ends in `.tgz`. */
  readonly path: string;
  readonly redact: boolean;
  readonly toolVersion: string;
  readonly signal: AbortSignal;
}

interface WrittenCapture {
  readonly record: SnapshotRecord;
  /** Null when nothing was redacted. */
  readonly redaction: RedactionSummary | null;
}

/**
 * Writes a bundle. The redaction key is random and is discarded after the run. Throws a CLIError (exit 2) if the bundle cannot be written.
 */
export async function writeCapture(capture: Capture, {path, redact, toolVersion, signal}: WriteOptions): Promise<WrittenCapture> {
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
  return error instanceof UnwritableTarget ? new Errors.CLIError(escapeText(error.message), {exit: 2}) : error;
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
    ...(version === undefined ? {} : {serverVersion: version}),
    chosenNodes: capture.chosenNodes,
    api: redaction.objects(capture.api),
    nodes: redactNodes(capture, redaction),
    problems: capture.problems.map(problem => redaction.problem(problem)),
    ...(history === undefined ? {} : {history: () => redactHistory(history(), redaction)}),
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
      ...(status === undefined ? {} : {status}),
      ...(reason === undefined ? {} : {reason: redaction.message(reason)}),
      ...(remedy === undefined ? {} : {remedy: redaction.message(remedy)}),
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
