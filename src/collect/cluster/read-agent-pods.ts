import {ciliumConfigMap, isCiliumAgent} from '../../model/proxy-config.ts';
import {isReadyPod, type NodeObject, type PodObject} from '../../model/api-objects.ts';
import {uniqueBy} from '../../model/lists.ts';
import type {Problem} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text.ts';
import {type AgentPlace, defaultAgentPort} from '../agents/agent-tokens.ts';
import type {KubeApi} from '../kube/kube-api.ts';
import type {NodeInfo} from '../node/transport.ts';
import {agentsOn} from '../transports/host-agents.ts';
import {ClusterReader} from './cluster-reader.ts';
import {portsOfPod} from '../../expect/node-context.ts';

interface PodsReading {
  /** Null if no list could be read. */
  readonly pods: readonly PodObject[] | null;
  readonly problems: readonly Problem[];
}

interface AgentPodsOptions {
  /** That of ClusterReader. */
  readonly anyFailure?: boolean | undefined;
  /** kube-proxy's pods of all chosen nodes, where they were read before. */
  readonly proxyPods?: ProxyPodsReading | undefined;
}

export interface ProxyPodsReading extends PodsReading {
  /** The only node whose pods were read; null for all nodes. */
  readonly node: string | null;
}

/**
 * The pods through which nodes are reached and that show kube-proxy's settings: kube-proxy's, by their labels; for nodes without one also
 * other pods in kube-system and in the namespaces of CNI agents. `nodes` are the names of the chosen nodes; null if unknown, and then the
 * pods show them.
 */
export async function readAgentPods(api: KubeApi, nodes: readonly string[] | null, options: AgentPodsOptions = {}): Promise<PodsReading> {
  const reader = new ClusterReader(api, options);
  const {pods: labeled, problems, node} = options.proxyPods ?? (await readProxyPods(api, null, options));
  const result = (...lists: readonly (readonly PodObject[] | null)[]): PodsReading => ({
    pods: joined([labeled, ...lists]),
    problems: uniqueBy([...problems, ...reader.problems], ({remedy}) => remedy),
  });
  const lacking = nodes === null ? null : withoutAgent(nodes, labeled ?? []);
  if (labeled === null || lacking?.length === 0) return result();
  // If others have one, that is part of the finding.
  const elsewhere = node === null ? [] : await listProxyPods(reader, {});
  const system = await readSystemPods(reader, lacking ?? []);
  const others = withoutAgent(lacking ?? [], system ?? []).length === 0 && lacking !== null ? [] : await readOtherNamespaces(reader);
  return result(elsewhere, system, others);
}

/** kube-proxy's pods and those of Cilium's agents, by their labels: on one node, or on all if `node` is null. */
export async function readProxyPods(
  api: KubeApi,
  node: string | null,
  options: Pick<AgentPodsOptions, 'anyFailure'> = {},
): Promise<ProxyPodsReading> {
  const reader = new ClusterReader(api, options);
  const pods = await listProxyPods(reader, node === null ? {} : {fieldSelector: `spec.nodeName=${node}`});
  return {pods, problems: uniqueBy(reader.problems, ({remedy}) => remedy), node};
}

async function listProxyPods(reader: ClusterReader, query: Readonly<Record<string, string>>): Promise<readonly PodObject[] | null> {
  return joined(await Promise.all(proxySelectors.map(labelSelector => listPods(reader, 'kube-system', {labelSelector, ...query}))));
}

/** kube-proxy's DaemonSet as in kubeadm and EKS, the agents of Cilium, which may run beside it, and static pods as in GKE and RKE2. */
const proxySelectors = ['k8s-app in (kube-proxy,cilium)', 'component=kube-proxy'];

/** The settings of Cilium, in the namespace of its agents; none if none of the pods is one. */
export async function readCiliumSettings(api: KubeApi, pods: readonly PodObject[]) {
  const namespace = pods.find(isCiliumAgent)?.metadata.namespace;
  if (namespace === undefined) return {configMaps: [], problems: []};
  const path = `/api/v1/namespaces/${namespace}/configmaps/${ciliumConfigMap}`;
  const remedy = `Get the right to read ConfigMap ${ciliumConfigMap}; without it, what the agents serve shows their settings.`;
  const reader = new ClusterReader(api, {anyFailure: true});
  const configMaps = await reader.get({of: 'configMaps', path, remedy, isMinor: true});
  return {configMaps: configMaps ?? [], problems: reader.problems};
}

/** Namespaces of CNI agents other than kube-system. */
const agentNamespaces = [
  'calico-system',
  'kube-flannel',
  'kube-router',
  'cilium',
  'openshift-kube-proxy',
  'openshift-sdn',
  'openshift-ovn-kubernetes',
  'ovn-kubernetes',
];

/** Up to this many nodes are queried one by one, so that the pods of all nodes are not read for a few. */
const fewNodes = 10;

/** All pods of kube-system on these nodes; on all nodes if there are many. */
async function readSystemPods(reader: ClusterReader, nodes: readonly string[]): Promise<readonly PodObject[] | null> {
  if (nodes.length === 0 || nodes.length > fewNodes) return listPods(reader, 'kube-system', {});
  return joined(await Promise.all(nodes.map(node => listPods(reader, 'kube-system', {fieldSelector: `spec.nodeName=${node}`}))));
}

async function readOtherNamespaces(reader: ClusterReader): Promise<readonly PodObject[]> {
  const lists = await Promise.all(agentNamespaces.map(namespace => listPods(reader, namespace, {})));
  return lists.flatMap(list => list ?? []);
}

function listPods(reader: ClusterReader, namespace: string, query: Readonly<Record<string, string>>): Promise<readonly PodObject[] | null> {
  const remedy = `Get the right to list pods of ${namespace} ("kubectl svc-trace access" prints the Role for it), or use --transport ssh.`;
  return reader.list({of: 'pods', path: `/api/v1/namespaces/${namespace}/pods`, query, remedy, isMinor: true});
}

function withoutAgent(nodes: readonly string[], pods: readonly PodObject[]): readonly string[] {
  const byNode = podsByNode(pods);
  return nodes.filter(name => agentsOn({name, addresses: [], pods: byNode.get(name) ?? []}).length === 0);
}

export function podsByNode(pods: readonly PodObject[]): ReadonlyMap<string, readonly PodObject[]> {
  const placed = pods.filter(({spec}) => spec?.nodeName !== undefined);
  return Map.groupBy(placed, ({spec}) => spec?.nodeName ?? '');
}

/** Each pod once; null if nothing could be read. */
function joined(lists: readonly (readonly PodObject[] | null)[]): readonly PodObject[] | null {
  if (lists.every(list => list === null)) return null;
  const pods = lists.flatMap(list => list ?? []);
  return uniqueBy(pods, ({metadata}) => namespacedName(metadata));
}

/** What transports need to know about these nodes. A node whose object was not read is known by its name and its pods. */
export function nodeInfos(names: readonly string[], objects: readonly NodeObject[], {pods, problems}: PodsReading): readonly NodeInfo[] {
  const byName = new Map(objects.map(object => [object.metadata.name, object]));
  const byNode = podsByNode(pods ?? []);
  const isUnlisted = pods === null && problems.length > 0 && problems.every(({isPermanent}) => isPermanent);
  return names.map(name => {
    const object = byName.get(name);
    return {
      name,
      addresses: (object?.status?.addresses ?? []).flatMap(({type, address}) =>
        type === undefined || address === undefined ? [] : [{type, address}],
      ),
      pods: byNode.get(name) ?? [],
      unlisted: problems[0]?.message,
      ...(isUnlisted ? {isUnlisted: true as const} : {}),
    };
  });
}

/** The agents' pods, by node name; null if they may not be listed. */
export async function readAgents(reader: ClusterReader, {namespace, selector}: AgentPlace): Promise<ReadonlyMap<string, PodObject> | null> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`;
  const remedy = `Get the right to list pods of ${namespace} ("kubectl svc-trace access --agents" prints the Role for it).`;
  const pods = await reader.list({of: 'pods', path, query: {labelSelector: selector}, remedy});
  if (pods === null) return null;
  const best = [...podsByNode(pods)].flatMap(([node, own]) => {
    const [first] = own.toSorted((a, b) => rankOf(a) - rankOf(b));
    return first === undefined ? [] : [[node, first] as const];
  });
  return new Map(best);
}

/** During an update there are briefly two: the old one and the new one. */
function rankOf(pod: PodObject): number {
  if (pod.metadata.deletionTimestamp !== undefined) return 3;
  if (pod.status?.phase !== 'Running') return 2;
  return isReadyPod(pod) ? 0 : 1;
}

export interface AgentPort {
  /** `http` if the port has that name: agents with --insecure-http, and agents of older versions. */
  readonly scheme: 'http' | 'https';
  readonly port: number;
}

/** The first port that the pod has. */
export function agentPort(pod: PodObject): AgentPort {
  const [first] = portsOfPod(pod);
  return {scheme: first?.name === 'http' ? 'http' : 'https', port: first?.containerPort ?? defaultAgentPort};
}
