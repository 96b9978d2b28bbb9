import {pushTo} from '../../model/lists.ts';
import type {Preview, PreviewChange, PreviewEffect, Requirement} from '../../model/preview.ts';
import {namespacedName} from '../../model/text.ts';
import {nodeList} from '../names-of-nodes.ts';

/** Nodes in rows and what changes there in columns, in the order to go in. Not escaped. */
export interface NodeOrder {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** The node to begin with; null if none can be switched. */
  readonly first: string | null;
}

const columns: Readonly<Record<PreviewEffect, string>> = {
  lost: 'LOST',
  gained: 'GAINED',
  refused: 'REFUSED',
  unanswered: 'UNANSWERED',
  'source-address': 'SOURCE',
  shares: 'SHARES',
  affinity: 'AFFINITY',
  undetermined: 'UNDETERMINED',
};
const effects = Object.keys(columns) as readonly PreviewEffect[];

interface NodeRow {
  readonly name: string;
  /** 0 is ready; see `ranks`. */
  readonly rank: number;
  /** The Services that each effect concerns. */
  readonly counts: readonly number[];
  readonly cells: readonly string[];
}

/** Ready, not known, a requirement that is not met, one without which kube-proxy does not start, not checked. */
const ranks = {met: 0, unknown: 1, unmet: 2, blocked: 3, unread: 4} as const;

/**
 * Nodes that are ready come first, and of these the ones that lose the least: what goes wrong is noticed where it does least harm. Nodes
 * with equal cells share a row. Effects that no node has get no column.
 */
export function nodeOrder(
  {nodes, changes, requirements}: Pick<Preview, 'nodes' | 'changes' | 'requirements'>,
  {isBlocking, isCounted}: {readonly isBlocking: (one: Requirement) => boolean; readonly isCounted: (one: PreviewChange) => boolean},
): NodeOrder {
  const changesOf = Map.groupBy(changes.filter(isCounted), ({node}) => node);
  const requirementsOf = Map.groupBy(requirements, ({node}) => node);
  const shown = effects.filter(effect => changes.some(change => change.effect === effect && isCounted(change)));
  const rows = nodes.map(({name, basis, reason}): NodeRow => {
    const own = changesOf.get(name) ?? [];
    const counts = shown.map(effect => new Set(own.flatMap(one => (one.effect === effect ? [namespacedName(one.service)] : []))).size);
    if (basis === 'unread') return {name, rank: ranks.unread, counts, cells: [...counts.map(() => '?'), `not checked: ${reason ?? ''}`]};
    const open = (requirementsOf.get(name) ?? []).filter(({status}) => status !== 'met');
    const status = open.some(isBlocking)
      ? 'blocked'
      : open.some(one => one.status === 'unmet')
        ? 'unmet'
        : open.length > 0
          ? 'unknown'
          : 'met';
    return {
      name,
      rank: ranks[status],
      counts,
      cells: [...counts.map(count => (count === 0 ? '-' : String(count))), requirementsText(open)],
    };
  });
  const sorted = rows.toSorted((a, b) => a.rank - b.rank || compareCounts(a.counts, b.counts));
  const groups = new Map<string, NodeRow[]>();
  for (const row of sorted) pushTo(groups, JSON.stringify(row.cells), row);
  return {
    head: ['STEP', 'NODES', ...shown.map(effect => columns[effect]), 'REQUIREMENTS'],
    rows: [...groups.values()].map((group, index) => {
      const [row] = group;
      const isPossible = row !== undefined && row.rank < ranks.blocked;
      return [isPossible ? String(index + 1) : '-', nodeList(group.map(({name}) => name)), ...(row?.cells ?? [])];
    }),
    first: sorted.find(({rank}) => rank < ranks.blocked)?.name ?? null,
  };
}

/** `met`, or `unmet: nft; unknown: kernel, kernel-modules`. */
function requirementsText(open: readonly Requirement[]): string {
  const texts = (['unmet', 'unknown'] as const).flatMap(status => {
    const names = [...new Set(open.flatMap(one => (one.status === status ? [one.name] : [])))];
    return names.length === 0 ? [] : [`${status}: ${names.join(', ')}`];
  });
  return texts.length === 0 ? 'met' : texts.join('; ');
}

/** By the first effect in which they differ: losses weigh most. */
function compareCounts(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((count, index) => count !== b[index]);
  return at < 0 ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
}
