import type {ObjectMeta, PodObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {podsOnNode} from './api-index.ts';

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
