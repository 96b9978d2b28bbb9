import type {BundledNode} from '../../collect/bundle/write-bundle.ts';
import type {RecordedHistory} from '../../model/state-history.ts';
import type {ApiObjects, Problem, Snapshot} from '../../model/snapshot.ts';

/** The content of a bundle to be written, from a cluster or from another bundle. */
export interface Capture {
  /** The cluster or the bundle, as text for people. */
  readonly origin: string;
  /** RFC 3339; null if unknown. */
  readonly takenAt: string | null;
  /** Of the API server; left out if unknown. */
  readonly serverVersion?: string;
  readonly api: ApiObjects;
  /** Only some nodes of the cluster were requested. */
  readonly chosenNodes: boolean;
  /** In the order in which they arrive. */
  readonly nodes: AsyncIterable<BundledNode> | Iterable<BundledNode>;
  readonly problems: readonly Problem[];
  /** The states of Services until now; null if none changed. */
  readonly history?: () => RecordedHistory | null;
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
