import type {EndpointSliceObject, NodeObject, PodObject, ServiceObject} from '../../model/api-objects.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {ApiObjects, Problem} from '../../model/snapshot.ts';
import {ClusterReader} from '../cluster/cluster-reader.ts';
import {readServiceCIDRs, type ServiceObjects, readConfigMaps} from '../cluster/read-cluster.ts';
import type {KubeApi} from '../kube/kube-api.ts';
import {endpointSliceShape, nodeShape, podShape, serviceShape} from '../objects/api-shapes.ts';

export interface NodeObjects {
  readonly objects: Pick<ApiObjects, 'nodes' | 'pods' | 'configMaps' | 'serviceCIDRs'>;
  readonly problems: readonly Problem[];
}

/**
 * The API objects about one node and its kube-proxy: the Node, the pods of kube-system on it, kube-proxy's ConfigMaps and the few
 * ServiceCIDRs. All are read by name or node and from the watch cache (`resourceVersion=0`), so that many agents cost the API server little.
 */
export async function readNodeObjects(api: KubeApi, node: string): Promise<NodeObjects> {
  const reader = new ClusterReader(api, {anyFailure: true});
  const [own, pods, configMaps, serviceCIDRs] = await Promise.all([
    readNode(reader, node),
    readPods(reader, node),
    readConfigMaps(reader, {remedy, query: fromCache}),
    readServiceCIDRs(reader, fromCache),
  ]);
  const servers = own?.some(isOfK3s) ? await readServers(reader) : [];
  const others = servers.filter(({metadata}) => metadata.name !== node);
  return {objects: {nodes: own === null ? null : [...own, ...others], pods, configMaps, serviceCIDRs}, problems: reader.problems};
}

const fromCache = {resourceVersion: '0'};
const remedy = 'Give the agent the rights of docs/rbac/agent.yaml.';

function readNode(reader: ClusterReader, name: string): Promise<readonly NodeObject[] | null> {
  return reader.get<NodeObject>({path: `/api/v1/nodes/${encodeURIComponent(name)}`, query: fromCache, shape: nodeShape, remedy});
}

/** On k3s and RKE2, the servers pass kube-proxy's settings to the agents: see `kube-proxy-pod.ts`. */
function isOfK3s({metadata: {annotations = {}}}: NodeObject): boolean {
  return 'k3s.io/node-args' in annotations || 'rke2.io/node-args' in annotations;
}

async function readServers(reader: ClusterReader): Promise<readonly NodeObject[]> {
  const query = {...fromCache, labelSelector: 'node-role.kubernetes.io/control-plane'};
  return (await reader.list<NodeObject>({path: '/api/v1/nodes', query, shape: nodeShape, remedy})) ?? [];
}

function readPods(reader: ClusterReader, node: string): Promise<readonly PodObject[] | null> {
  const query = {...fromCache, fieldSelector: `spec.nodeName=${node}`};
  return reader.list<PodObject>({path: '/api/v1/namespaces/kube-system/pods', query, shape: podShape, remedy, isMinor: true});
}

/**
 * A Service and its slices as stored in etcd, whatever the watches delivered; a text says why they could not be read. Uses lists only: this
 * needs no more permissions than a watch.
 */
export async function lookUpService(api: KubeApi, {namespace, name}: ServiceName): Promise<ServiceObjects | string> {
  const reader = new ClusterReader(api, {anyFailure: true});
  const place = `namespaces/${encodeURIComponent(namespace)}`;
  const [services, endpointSlices] = await Promise.all([
    reader.list<ServiceObject>({
      path: `/api/v1/${place}/services`,
      query: {fieldSelector: `metadata.name=${name}`},
      shape: serviceShape,
      remedy: '',
    }),
    reader.list<EndpointSliceObject>({
      path: `/apis/discovery.k8s.io/v1/${place}/endpointslices`,
      shape: endpointSliceShape,
      remedy: '',
      query: {labelSelector: `kubernetes.io/service-name=${name}`},
    }),
  ]);
  if (services !== null && endpointSlices !== null) return {services, endpointSlices, endpoints: null};
  return reader.problems[0]?.message ?? 'it could not be asked';
}
