import type {ConfigMapObject, PodObject} from '../model/api-objects.ts';
import {type ConfigMapPlace, configMapPlaces} from '../model/config-map-places.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {once} from './api-index.ts';

/** A KubeProxyConfiguration in a ConfigMap. */
interface MappedConfig {
  readonly name: string;
  readonly text: string;
}

/**
 * The configuration that kube-proxy's pod reads from a ConfigMap; null if none is known. A pod reads only the ConfigMaps that it mounts:
 * one that is left over from another installation is ignored.
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
