import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import {once} from '../expect/api-index.ts';
import type {Ruleset} from '../model/ruleset.ts';

/**
 * The rulesets of the node before, by file, to read the next one with. None for the first node: it may be the only one, and its dump takes
 * memory.
 */
export function dumpsBefore(view: ClusterView, node: string): Map<string, readonly Ruleset[]> | undefined {
  const kept = keptOf(view);
  kept.firstNode ??= node;
  return kept.firstNode === node ? undefined : kept.dumps;
}

const keptOf = once((_: ClusterView): KeptDumps => ({firstNode: null, dumps: new Map()}));

interface KeptDumps {
  firstNode: string | null;
  readonly dumps: Map<string, readonly Ruleset[]>;
}
