import {ClusterReader} from '../collect/cluster/cluster-reader.ts';
import type {ClusterScope} from '../collect/cluster/cluster-scope.ts';
import {readServices} from '../collect/cluster/read-cluster.ts';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {unlessInterrupted} from './interruption.ts';

interface ReadingAgain {
  readonly api: KubeApi;
  /** The API objects read before. */
  readonly scope: ClusterScope;
  /** The objects that nodes are evaluated against now. */
  readonly before: ApiObjects;
  readonly signal: AbortSignal;
}

/**
 * Only objects that can have changed: of all Services, because that shows more; without permission for these, of the Services read before.
 */
export async function readAllAgain(reading: ReadingAgain): Promise<ApiObjects> {
  const {api, scope, before, signal} = reading;
  const {namespaces, ...rest} = before;
  const all = await unlessInterrupted(readServices({kind: 'cluster'}, new ClusterReader(api, {anyFailure: true})), signal);
  if (isThere(all)) return {...rest, ...all};
  return scope.kind === 'cluster' || namespaces === undefined ? before : readAsBefore(reading);
}

/** The same Services as before; the previous objects if they cannot be read now. */
export async function readAsBefore({api, scope, before, signal}: ReadingAgain): Promise<ApiObjects> {
  const asBefore = await unlessInterrupted(readServices(scope, new ClusterReader(api, {anyFailure: true})), signal);
  return isThere(asBefore) ? {...before, ...asBefore} : before;
}

/** Without slices or Endpoints no node can be evaluated. */
export function isThere({services, endpointSlices, endpoints}: Pick<ApiObjects, 'services' | 'endpointSlices' | 'endpoints'>): boolean {
  return services !== null && (endpointSlices !== null || endpoints !== null);
}
