import type {DiagnoseOptions} from './diagnosis/diagnose-node.ts';
import {Diagnosis} from './diagnosis/diagnosis.ts';
import type {NodeObject} from './model/api-objects.ts';
import {whyWithoutKubeProxy} from './model/node/node-facts.ts';
import type {Report} from './model/report.ts';
import {notInBundle, type Snapshot} from './model/snapshot.ts';
import type {NodeReading} from './model/state-history.ts';

export type {DiagnoseOptions} from './diagnosis/diagnose-node.ts';

/** The pipeline from a Snapshot to a Report. A pure function: the same Snapshot gives the same Report. */
export function diagnose(snapshot: Snapshot, options: DiagnoseOptions): Report {
  const diagnosis = new Diagnosis(snapshot.api, options);
  const wantsNode = options.nodes ?? (() => true);
  const isEmpty = diagnosis.services.length === 0 && snapshot.nodes.length === 0;
  for (const object of (isEmpty ? [] : missingNodes(snapshot)).filter(({metadata}) => wantsNode(metadata.name))) {
    const {name} = object.metadata;
    if (whyWithoutKubeProxy(object) !== null) diagnosis.add({name, files: [], read: () => null});
    else diagnosis.addUnread({name, reason: notInBundle, remedy: 'Collect it, or select nodes with --node.'});
  }
  for (const node of snapshot.unread ?? []) if (wantsNode(node.name)) diagnosis.addUnread(node);
  for (const node of snapshot.nodes) if (wantsNode(node.name)) diagnosis.add(node, readingOf(node.name, snapshot));
  return diagnosis.report(snapshot.problems);
}

function readingOf(name: string, {history}: Snapshot): NodeReading | undefined {
  const time = history?.nodes[name];
  return history === undefined || time === undefined ? undefined : {...time, history};
}

/** Nodes of the API without a dump in the snapshot. */
function missingNodes({nodes, api, chosenNodes}: Snapshot): readonly NodeObject[] {
  const read = new Set(nodes.map(({name}) => name));
  return chosenNodes ? [] : (api.nodes ?? []).filter(({metadata}) => !read.has(metadata.name));
}
