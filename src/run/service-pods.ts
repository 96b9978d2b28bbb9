import {readServicePods, type ServicePods} from '../collect/cluster/read-service-pods.ts';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {namespacedName} from '../model/text/namespaced-name.ts';
import {sliceService} from '../model/endpoint.ts';

/** The pods of the Services without endpoints: only for these do pods show more than slices. */
export function podsWithoutEndpoints(api: KubeApi, services: readonly ServiceObject[], objects: EndpointObjects): Promise<ServicePods> {
  const withSome = withEndpoints(objects);
  return readServicePods(
    api,
    services.filter(({metadata}) => !withSome.has(namespacedName(metadata))),
  );
}

type EndpointObjects = Pick<ApiObjects, 'endpointSlices' | 'endpoints'>;

function withEndpoints({endpointSlices, endpoints}: EndpointObjects): ReadonlySet<string> {
  return new Set([
    ...(endpointSlices ?? []).flatMap(slice => ((slice.endpoints ?? []).length > 0 ? (sliceService(slice) ?? []) : [])),
    ...(endpoints ?? []).filter(({subsets}) => (subsets ?? []).length > 0).map(({metadata}) => namespacedName(metadata)),
  ]);
}
