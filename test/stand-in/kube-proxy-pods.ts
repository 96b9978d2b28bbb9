import type {StoredObject} from './object-store.ts';

/** One kube-proxy a node, as a DaemonSet makes them. */
export function kubeProxyPods(nodes: readonly Pick<StoredObject, 'metadata'>[]): readonly object[] {
  return nodes.map(({metadata: {name}}) => ({
    metadata: {name: kubeProxyPod(name), namespace: 'kube-system', labels: {'k8s-app': 'kube-proxy'}},
    spec: {nodeName: name, hostNetwork: true, containers: [{name: 'kube-proxy', image: 'registry.k8s.io/kube-proxy'}]},
    status: {phase: 'Running', conditions: [{type: 'Ready', status: 'True'}]},
  }));
}

function kubeProxyPod(node: string): string {
  return `kube-proxy-${node}`;
}
