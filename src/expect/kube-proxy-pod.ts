import type {NodeObject, ObjectMeta, PodObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {type KubeProxyFields, type NodeArgs, parseArguments, parseNodeArgs} from '../parse/kube-proxy/kube-proxy-config.ts';
import {podsOnNode} from './api-index.ts';
import {once} from '../model/once.ts';

/** Pods that run kube-proxy, as platforms create them. For the source of each see docs/platforms.md. */
interface KubeProxyPods {
  readonly namespace: string;
  /** The prefix of their names. */
  readonly name: string;
  /** They have one of these labels. */
  readonly labels: Readonly<Record<string, string>>;
}

const kubeProxyPods: readonly KubeProxyPods[] = [
  // kubeadm, kind, minikube, EKS and Talos have the first label, GKE, AKS and RKE2 the second.
  {namespace: 'kube-system', name: 'kube-proxy', labels: {'k8s-app': 'kube-proxy', component: 'kube-proxy'}},
  {namespace: 'openshift-kube-proxy', name: 'openshift-kube-proxy', labels: {app: 'kube-proxy'}},
  // OpenShift SDN runs kube-proxy inside a process of its own.
  {namespace: 'openshift-sdn', name: 'sdn-', labels: {app: 'sdn'}},
];

/** The pod that runs kube-proxy on a node, running ones first. Undefined if kube-proxy runs as a process, in k3s, or not at all. */
export function kubeProxyPod(api: ApiObjects, node: string): PodObject | undefined {
  const pods = podsOnNode(api, node).filter(({metadata}) => runsKubeProxy(metadata));
  return pods.toSorted((a, b) => rankOf(a) - rankOf(b))[0];
}

/** Whether a pod runs kube-proxy, by its namespace and its name or labels. */
export function runsKubeProxy({namespace, name, labels}: ObjectMeta): boolean {
  return kubeProxyPods.some(
    kind =>
      kind.namespace === namespace &&
      (name.startsWith(kind.name) || Object.entries(kind.labels).some(([key, value]) => labels?.[key] === value)),
  );
}

/** During an update there are briefly two: the old one and the new one. */
function rankOf({metadata, status}: PodObject): number {
  if (metadata.deletionTimestamp !== undefined) return 2;
  return status?.phase === undefined || status.phase === 'Running' ? 0 : 1;
}

type Container = NonNullable<NonNullable<PodObject['spec']>['containers']>[number];

/** The container of that pod that runs kube-proxy; the first if none has its name. */
export function kubeProxyContainer(pod: PodObject | undefined): Container | undefined {
  const containers = pod?.spec?.containers ?? [];
  return containers.find(({name}) => name?.includes('kube-proxy')) ?? containers[0];
}

/**
 * The settings of a kube-proxy that runs inside k3s, from the command lines that k3s and RKE2 write to annotations of the Nodes; null for a
 * Node without one. Follows k3s's kubeProxyArgs: `--kube-proxy-arg` overrides the arguments of k3s itself.
 */
export function k3sProxyFields(object: NodeObject | undefined, api: ApiObjects): KubeProxyFields | null {
  const own = nodeArgs(object);
  if (own === null) return null;
  const handedOn = parseArguments(own.kubeProxyArgs);
  // kube-proxy ignores flags if it has a configuration file.
  if (own.kubeProxyArgs.some(arg => arg.startsWith('--config='))) return handedOn;
  const clusterCIDR = clusterCIDROf(object, api);
  return {mode: 'iptables', ...(clusterCIDR === null ? {} : {clusterCIDRs: clusterCIDR.split(',')}), ...handedOn};
}

/**
 * Whether k3s or RKE2 runs kube-proxy on this node, by `--disable-kube-proxy` of the servers, which pass it to the agents. Null if this is
 * neither of them, if no server is known, and if they disagree.
 */
export function k3sRunsKubeProxy(object: NodeObject | undefined, api: ApiObjects): boolean | null {
  if (nodeArgs(object) === null) return null;
  const {disabled} = saidByServers(api.nodes ?? []);
  const [only] = disabled;
  return disabled.size !== 1 || only === undefined ? null : !only;
}

function nodeArgs(object: NodeObject | undefined): NodeArgs | null {
  const annotations = object?.metadata.annotations;
  const text = annotations?.['k3s.io/node-args'] ?? annotations?.['rke2.io/node-args'];
  return text === undefined ? null : parseNodeArgs(text);
}

/** Agents get it from the servers. Null if no server tells, or the pods of this node show that the default does not apply. */
function clusterCIDROf(object: NodeObject | undefined, api: ApiObjects): string | null {
  const {cidrs} = saidByServers(api.nodes ?? []);
  const [only] = cidrs;
  if (cidrs.size !== 1 || only === undefined) return null;
  return only ?? (isDefault(object) ? defaultClusterCIDR : null);
}

/** The values of the servers, without duplicates. */
const saidByServers = once((nodes: readonly NodeObject[]) => {
  const servers = nodes.flatMap(node => nodeArgs(node) ?? []).filter(({isServer}) => isServer);
  return {
    cidrs: new Set(servers.map(({clusterCIDR}) => clusterCIDR)),
    disabled: new Set(servers.map(({disablesKubeProxy}) => disablesKubeProxy)),
  };
});

const defaultClusterCIDR = '10.42.0.0/16';

function isDefault(object: NodeObject | undefined): boolean {
  const {podCIDR, podCIDRs: given} = object?.spec ?? {};
  const podCIDRs = given ?? [];
  const own = podCIDRs.length > 0 ? podCIDRs : podCIDR === undefined ? [] : [podCIDR];
  return own.length === 1 && own.every(cidr => cidr.startsWith('10.42.'));
}
