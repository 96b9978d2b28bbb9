import type {ConfigMapObject, NodeObject, PodObject} from '../../model/api-objects.ts';
import {systemConfigMaps} from '../../model/config-map-places.ts';
import type {ApiObjects, Problem} from '../../model/snapshot.ts';
import {configMapShape, nodeShape, podShape} from '../objects/api-shapes.ts';
import {ClusterReader} from '../cluster/cluster-reader.ts';
import {readServiceCIDRs} from '../cluster/read-cluster.ts';
import type {KubeApi} from '../kube/kube-api.ts';

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
    readConfigMaps(reader),
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

/** On k3s and RKE2, the servers pass kube-proxy's settings to the agents: see `k3s-proxy-fields.ts`. */
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

async function readConfigMaps(reader: ClusterReader): Promise<readonly ConfigMapObject[] | null> {
  const what = {query: fromCache, shape: configMapShape, remedy, isMinor: true};
  const lists = await Promise.all(
    systemConfigMaps.map(name => reader.get<ConfigMapObject>({...what, path: `/api/v1/namespaces/kube-system/configmaps/${name}`})),
  );
  return lists.some(list => list === null) ? null : lists.flatMap(list => list ?? []);
}
