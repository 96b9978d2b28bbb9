import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import {once} from '../../expect/api-index.ts';
import {families} from '../../model/family.ts';
import type {ClusterContext} from '../check.ts';

/** The requested Service ports, in both families, with their endpoints. */
export const askedEntries: (context: ClusterContext) => readonly PortEntry[] = once(({view, proxy, services}: ClusterContext) => {
  const asked = new Set(services);
  return families.flatMap(family => view.entries(family, proxy).filter(({port}) => asked.has(port.object)));
});

/**
 * Those that a check of endpoints may report. The endpoints of nearly all others are looked at once for all these checks: there are some,
 * each is given once, is ready, has no hints and is on a node of the cluster.
 */
export const unusualEntries: (context: ClusterContext) => readonly PortEntry[] = once((context: ClusterContext) => {
  const {nodes} = context.api;
  const names = nodes === null ? null : new Set(nodes.map(({metadata}) => metadata.name));
  return askedEntries(context).filter(entry => isUnusual(entry, names));
});

/** `nodes` are null if they were not read. */
function isUnusual({set}: PortEntry, nodes: ReadonlySet<string> | null): boolean {
  if (set.endpoints.length === 0 || set.ambiguous.size > 0) return true;
  for (const {ready, zoneHints, nodeHints, nodeName} of set.endpoints) {
    if (!ready || zoneHints !== null || nodeHints !== null || nodeName === null) return true;
    if (nodes?.has(nodeName) === false) return true;
  }
  return false;
}
