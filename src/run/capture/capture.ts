import type {BundledNode} from '../../collect/bundle/write-bundle.ts';
import type {RecordedHistory} from '../../model/state-history.ts';
import type {ApiObjects, Problem, Snapshot} from '../../model/snapshot.ts';

/** What is to be written to a bundle, wherever it is from. */
export interface Capture {
  /** Of the cluster or the bundle, in words. */
  readonly origin: string;
  /** RFC 3339; null when it is not known. */
  readonly takenAt: string | null;
  readonly api: ApiObjects;
  /** Only some nodes of the cluster were asked for. */
  readonly chosenNodes: boolean;
  /** As they come. */
  readonly nodes: AsyncIterable<BundledNode> | Iterable<BundledNode>;
  readonly problems: readonly Problem[];
  /** The states that Services had until now; null where none changed. */
  readonly history?: () => RecordedHistory | null;
}

/** A bundle that is written again, with the nodes that are wanted. */
export function captureOf(
  {origin, takenAt, api, nodes, unread = [], problems, history, chosenNodes = false}: Snapshot,
  wantsNode: (name: string) => boolean,
): Capture {
  const lost = unread.map(node => ({...node, files: [], read: () => null, status: 'unread' as const}));
  const all = [...nodes, ...lost];
  const wanted = all.filter(({name}) => wantsNode(name));
  const isPart = chosenNodes || wanted.length < all.length;
  return {
    origin,
    takenAt: takenAt ?? null,
    api,
    problems,
    chosenNodes: isPart,
    nodes: wanted,
    ...(history === undefined ? {} : {history: () => history}),
  };
}
