import type {BundledNode} from '../../collect/bundle/write-bundle.ts';
import type {ApiObjects, Problem, Snapshot} from '../../model/snapshot.ts';

/** What is to be written to a bundle, wherever it is from. */
export interface Capture {
  /** Of the cluster or the bundle, in words. */
  readonly origin: string;
  /** RFC 3339; null when it is not known. */
  readonly takenAt: string | null;
  readonly api: ApiObjects;
  /** As they come. */
  readonly nodes: AsyncIterable<BundledNode> | Iterable<BundledNode>;
  readonly problems: readonly Problem[];
}

/** A bundle that is written again, with the nodes that are wanted. */
export function captureOf({origin, takenAt, api, nodes, unread = [], problems}: Snapshot, wantsNode: (name: string) => boolean): Capture {
  const lost = unread.map(node => ({...node, files: [], read: () => null, status: 'unread' as const}));
  return {origin, takenAt: takenAt ?? null, api, problems, nodes: [...nodes, ...lost].filter(({name}) => wantsNode(name))};
}
