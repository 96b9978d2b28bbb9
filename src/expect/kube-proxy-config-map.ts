import type {ConfigMapObject, PodObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {once} from './api-index.ts';

/** A ConfigMap that platforms keep kube-proxy's configuration in. Where each is from: docs/platforms.md. */
export interface ConfigMapPlace {
  readonly namespace: string;
  readonly name: string;
  readonly key: string;
}

export const configMapPlaces: readonly ConfigMapPlace[] = [
  // kubeadm, kind, minikube. On EKS a ConfigMap of this name holds a kubeconfig only.
  {namespace: 'kube-system', name: 'kube-proxy', key: 'config.conf'},
  {namespace: 'kube-system', name: 'kube-proxy', key: 'config'},
  // EKS
  {namespace: 'kube-system', name: 'kube-proxy-config', key: 'config'},
  // OpenShift with kube-proxy beside another network, and with OpenShift SDN
  {namespace: 'openshift-kube-proxy', name: 'proxy-config', key: 'kube-proxy-config.yaml'},
  {namespace: 'openshift-sdn', name: 'sdn-config', key: 'kube-proxy-config.yaml'},
];

/** A KubeProxyConfiguration in a ConfigMap. */
export interface MappedConfig {
  readonly name: string;
  readonly text: string;
}

/**
 * The configuration that kube-proxy's pod reads from a ConfigMap; null when none is known. A pod that says what it mounts reads
 * nothing else: a ConfigMap that is left over from another installation is not believed.
 */
export function kubeProxyConfigMap({configMaps}: ApiObjects, pod: PodObject | undefined): MappedConfig | null {
  if (configMaps === null) return null;
  const mounted = pod?.spec?.volumes?.flatMap(({configMap}) => configMap?.name ?? []);
  return (
    mappedConfigs(configMaps).find(
      ({namespace, name}) => mounted === undefined || (namespace === pod?.metadata.namespace && mounted.includes(name)),
    ) ?? null
  );
}

const mappedConfigs = once((configMaps: readonly ConfigMapObject[]) =>
  configMapPlaces.flatMap(place => {
    const text = configMaps.find(candidate => isAt(candidate, place))?.data?.[place.key];
    return text === undefined ? [] : [{...place, text}];
  }),
);

function isAt({metadata}: ConfigMapObject, {namespace, name}: ConfigMapPlace): boolean {
  return metadata.namespace === namespace && metadata.name === name;
}
