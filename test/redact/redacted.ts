import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {diagnosed} from '../diagnosed.ts';
import {Redaction} from '../../src/redact/redaction.ts';

const done = new Map<Snapshot, Snapshot>();

/** A Snapshot as it is after redaction: the files as they would be written and read again. */
export function redacted(snapshot: Snapshot, key?: string): Snapshot {
  if (key !== undefined) return redactBy(key, snapshot);
  const known = done.get(snapshot) ?? redactBy('a key for tests', snapshot);
  done.set(snapshot, known);
  return known;
}

function redactBy(key: string, snapshot: Snapshot): Snapshot {
  const redaction = new Redaction(key);
  const api = redaction.objects(snapshot.api);
  const nodes = snapshot.nodes.map(node => frozen(redaction.node(node)));
  return {
    origin: 'redacted',
    api,
    nodes: nodes.sort((a, b) => (a.name < b.name ? -1 : 1)),
    problems: snapshot.problems.map(problem => redaction.problem(problem)),
  };
}

function frozen(node: NodeDump): NodeDump {
  const files = new Map(node.files.flatMap(file => (node.read(file) === null ? [] : [[file, node.read(file)] as const])));
  return {name: node.name, files: [...files.keys()], read: file => files.get(file) ?? null};
}

/** How many findings of each code and severity. */
export function findingCounts(snapshot: Snapshot): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const {code, severity} of diagnosed(snapshot).findings) {
    const key = `${code} ${severity}`;
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}
