import type {Preview} from '../src/model/preview-result.ts';
import type {NodeDump, Snapshot} from '../src/model/snapshot.ts';
import {PreviewRun, type PreviewRunInput} from '../src/preview/preview-run.ts';

interface PreviewInput extends Omit<PreviewRunInput, 'api'> {
  readonly snapshot: Snapshot;
  readonly nodes: readonly NodeDump[];
}

/** The effect of a change on packets, of all these nodes. */
export function preview({nodes, snapshot, ...input}: PreviewInput): Preview {
  const run = new PreviewRun({api: snapshot.api, ...input});
  for (const node of nodes) run.add(node);
  return run.result();
}
