import {ClusterReader, type ClusterScope} from '../collect/cluster/cluster-reader.ts';
import {readServicePods, readServices, type ServicePods} from '../collect/cluster/read-cluster.ts';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import {podShape} from '../collect/objects/api-shapes.ts';
import type {PodObject, ServiceObject} from '../model/api-objects.ts';
import {sliceService} from '../model/endpoint.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {namespacedName} from '../model/text.ts';
import {unlessAborted} from '../collect/unless-aborted.ts';

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
  const all = await unlessAborted(readServices({kind: 'cluster'}, new ClusterReader(api, {anyFailure: true})), signal);
  if (isThere(all)) return {...rest, ...all};
  return scope.kind === 'cluster' || namespaces === undefined ? before : readAsBefore(reading);
}

/** The same Services as before; the previous objects if they cannot be read now. */
export async function readAsBefore({api, scope, before, signal}: ReadingAgain): Promise<ApiObjects> {
  const asBefore = await unlessAborted(readServices(scope, new ClusterReader(api, {anyFailure: true})), signal);
  return isThere(asBefore) ? {...before, ...asBefore} : before;
}

/** Without slices or Endpoints no node can be evaluated. */
export function isThere({services, endpointSlices, endpoints}: Pick<ApiObjects, 'services' | 'endpointSlices' | 'endpoints'>): boolean {
  return services !== null && (endpointSlices !== null || endpoints !== null);
}

/** The pods of the Services without endpoints: only for these do pods show more than slices. */
export function podsWithoutEndpoints(api: KubeApi, services: readonly ServiceObject[], objects: EndpointObjects): Promise<ServicePods> {
  const withSome = withEndpoints(objects);
  return readServicePods(
    api,
    services.filter(({metadata}) => !withSome.has(namespacedName(metadata))),
  );
}

/**
 * The pods of nodes with errors, to tell how many are hit: by node, those of the first nodes alone. A node whose pods may not be listed is
 * left out: its pods only add detail to messages.
 */
export async function podsOnNodes(api: KubeApi, nodes: readonly string[]): Promise<ReadonlyMap<string, readonly PodObject[]>> {
  const reader = new ClusterReader(api, {anyFailure: true});
  const lists = nodes.slice(0, maxNodes).map(async (node): Promise<readonly (readonly [string, readonly PodObject[]])[]> => {
    const query = {fieldSelector: `spec.nodeName=${node}`};
    const pods = await reader.list<PodObject>({path: '/api/v1/pods', query, shape: podShape, remedy: '', isMinor: true});
    return pods === null ? [] : [[node, pods]];
  });
  return new Map((await Promise.all(lists)).flat());
}

const maxNodes = 20;

type EndpointObjects = Pick<ApiObjects, 'endpointSlices' | 'endpoints'>;

function withEndpoints({endpointSlices, endpoints}: EndpointObjects): ReadonlySet<string> {
  return new Set([
    ...(endpointSlices ?? []).flatMap(slice => ((slice.endpoints ?? []).length > 0 ? (sliceService(slice) ?? []) : [])),
    ...(endpoints ?? []).filter(({subsets}) => (subsets ?? []).length > 0).map(({metadata}) => namespacedName(metadata)),
  ]);
}
