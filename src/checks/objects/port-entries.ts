import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import {once} from '../../expect/api-index.ts';
import {families} from '../../model/family.ts';
import type {ClusterContext} from '../check.ts';

/** The requested Service ports, in both families, with their endpoints. */
export const askedEntries: (context: ClusterContext) => readonly PortEntry[] = once(({view, proxy, services}: ClusterContext) => {
  const asked = new Set(services);
  return families.flatMap(family => view.entries(family, proxy).filter(({port}) => asked.has(port.object)));
});
