import pLimit from 'p-limit';
import type {PodObject, ServiceObject} from '../../model/api-objects.ts';
import {podShape} from '../objects/api-shapes.ts';
import type {KubeApi} from '../kube/kube-api.ts';
import {ClusterReader} from './cluster-reader.ts';

export interface ServicePods {
  readonly pods: readonly PodObject[];
  /** The Services, as `namespace/name`, whose pods could be searched. */
  readonly podsOf: ReadonlySet<string>;
}

/** The pods that these Services select. Services whose pods may not be listed are left out: pods only add detail to messages. */
export async function readServicePods(api: KubeApi, services: readonly ServiceObject[]): Promise<ServicePods> {
  const reader = new ClusterReader(api, {anyFailure: true});
  const limit = pLimit(8);
  const podsOf = new Set<string>();
  const lists = services.slice(0, maxServices).map(({metadata, spec}) =>
    limit(async () => {
      const namespace = metadata.namespace ?? 'default';
      const labelSelector = Object.entries(spec?.selector ?? {})
        .map(([key, value]) => `${key}=${value}`)
        .join(',');
      if (labelSelector === '') return [];
      const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`;
      const pods = await reader.list<PodObject>({path, query: {labelSelector}, shape: podShape, remedy: '', isMinor: true});
      if (pods !== null) podsOf.add(`${namespace}/${metadata.name}`);
      return pods ?? [];
    }),
  );
  return {pods: (await Promise.all(lists)).flat(), podsOf};
}

/** Above this number, Services without endpoints are not explained by their pods. */
const maxServices = 50;
