/** A ConfigMap in which platforms store kube-proxy's configuration. For the source of each see docs/platforms.md. */
export interface ConfigMapPlace {
  readonly namespace: string;
  readonly name: string;
  readonly key: string;
}

export const configMapPlaces: readonly ConfigMapPlace[] = [
  // kubeadm, kind, minikube. On EKS a ConfigMap of this name contains only a kubeconfig.
  {namespace: 'kube-system', name: 'kube-proxy', key: 'config.conf'},
  {namespace: 'kube-system', name: 'kube-proxy', key: 'config'},
  // EKS
  {namespace: 'kube-system', name: 'kube-proxy-config', key: 'config'},
  // OpenShift with kube-proxy beside another network, and with OpenShift SDN
  {namespace: 'openshift-kube-proxy', name: 'proxy-config', key: 'kube-proxy-config.yaml'},
  {namespace: 'openshift-sdn', name: 'sdn-config', key: 'kube-proxy-config.yaml'},
];

/** Those of kube-system, which are read from a live cluster. OpenShift's are not: its nodes' rules show the settings. */
export const systemConfigMaps: readonly string[] = [
  ...new Set(configMapPlaces.filter(({namespace}) => namespace === 'kube-system').map(({name}) => name)),
];
