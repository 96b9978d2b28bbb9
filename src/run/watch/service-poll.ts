import {ClusterReader} from '../../collect/cluster/cluster-reader.ts';
import {readServices} from '../../collect/cluster/read-cluster.ts';
import {askedInput, askedScope} from '../scope/requested-scope.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {isThere} from '../reread.ts';
import {printOf} from '../service-history.ts';

/**
 * A text that changes whenever a Service or slice of the requested scope changes; null if they cannot be read. Reads the lists again: this
 * needs no more permissions than a check, while a watch of the API server does.
 */
export async function pollServices(run: ClusterRun): Promise<string | null> {
  const objects = await readServices(askedScope(askedInput(run)), new ClusterReader(run.cluster.api, {anyFailure: true}));
  return isThere(objects) ? printOf(objects.services ?? [], objects) : null;
}
