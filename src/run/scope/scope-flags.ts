import type {NodeChoice} from './choose-nodes.ts';

/** The flags that name Services and nodes. */
export interface ScopeFlags extends NodeChoice {
  readonly namespace?: string | undefined;
  readonly 'all-namespaces'?: boolean;
  readonly selector?: string | undefined;
}
