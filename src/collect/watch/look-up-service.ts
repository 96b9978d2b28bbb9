import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import type {ServiceName} from '../../model/finding.ts';
import {endpointSliceShape, serviceShape} from '../objects/api-shapes.ts';
import {ClusterReader} from '../cluster/cluster-reader.ts';
import type {ServiceObjects} from '../cluster/read-cluster.ts';
import type {KubeApi} from '../kube/kube-api.ts';

/**
 * A Service and its slices as stored in etcd, whatever the watches delivered; a text says why they could not be read. Uses lists only: this
 * needs no more permissions than a watch.
 */
export async function lookUpService(api: KubeApi, {namespace, name}: ServiceName): Promise<ServiceObjects | string> {
  const reader = new ClusterReader(api, {anyFailure: true});
  const place = `namespaces/${encodeURIComponent(namespace)}`;
  const [services, endpointSlices] = await Promise.all([
    reader.list<ServiceObject>({
      ...{path: `/api/v1/${place}/services`, query: {fieldSelector: `metadata.name=${name}`}, shape: serviceShape, remedy: ''},
    }),
    reader.list<EndpointSliceObject>({
      ...{path: `/apis/discovery.k8s.io/v1/${place}/endpointslices`, shape: endpointSliceShape, remedy: ''},
      query: {labelSelector: `kubernetes.io/service-name=${name}`},
    }),
  ]);
  if (services !== null && endpointSlices !== null) return {services, endpointSlices, endpoints: null};
  return reader.problems[0]?.message ?? 'it could not be asked';
}
