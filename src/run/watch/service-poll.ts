import {ClusterReader} from '../../collect/cluster/cluster-reader.ts';
import {readServices} from '../../collect/cluster/read-cluster.ts';
import {askedInput, askedScope} from '../scope/requested-scope.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {isThere} from '../reread.ts';
import {printOf} from '../service-history.ts';

/**
 * Another text whenever a Service is another of those that are read for the ones asked for, or one of its slices; null when they cannot be read. The lists are
 * read anew: that takes no other right than a look does, which a watch of the API server would.
 */
export async function pollServices(run: ClusterRun): Promise<string | null> {
  const objects = await readServices(askedScope(askedInput(run)), new ClusterReader(run.cluster.api, {anyFailure: true}));
  return isThere(objects) ? printOf(objects.services ?? [], objects) : null;
}
