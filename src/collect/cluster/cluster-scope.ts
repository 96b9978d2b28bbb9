import type {ServiceName} from '../../model/finding.ts';

/** Which Services and slices to read. */
export type ClusterScope =
  | {readonly kind: 'cluster'}
  | {readonly kind: 'namespaces'; readonly namespaces: readonly string[]}
  | {readonly kind: 'services'; readonly services: readonly ServiceName[]};
