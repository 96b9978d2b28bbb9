import type {RequestedEntries} from '../../collect/node/read-chains.ts';
import {ApiError, type KubeApi} from '../../collect/kube/kube-api.ts';
import {canonicalAddress} from '../../model/address.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/** The addresses and node ports at which clients reach these Services, and their names. */
export function requestedEntries(services: readonly ServiceObject[]): RequestedEntries {
  const addresses = services.flatMap(({spec, status}) => [
    ...(spec?.clusterIPs ?? []),
    ...(spec?.clusterIP === undefined ? [] : [spec.clusterIP]),
    ...(spec?.externalIPs ?? []),
    ...(status?.loadBalancer?.ingress ?? []).flatMap(({ip}) => ip ?? []),
  ]);
  const nodePorts = services.flatMap(({spec}) => (spec?.ports ?? []).flatMap(({nodePort}) => nodePort ?? []));
  return {
    names: new Set(services.map(({metadata}) => namespacedName(metadata))),
    addresses: new Set(addresses.flatMap(address => canonicalAddress(address) ?? [])),
    nodePorts: new Set(nodePorts),
  };
}

/** Whether the cluster has so many Services that reading all rules of a node can take seconds. False where that is not known. */
export async function isBigCluster(api: KubeApi, signal: AbortSignal): Promise<boolean> {
  try {
    const {metadata} = await api.get<ServicePage>('/api/v1/services', {limit: '1'}, {signal, once: true});
    return (metadata?.remainingItemCount ?? 0) >= manyServices;
  } catch (error) {
    if (error instanceof ApiError || signal.aborted) return false;
    throw error;
  }
}

interface ServicePage {
  readonly metadata?: {readonly remainingItemCount?: number};
}

/** With fewer, reading all chains at once takes no longer than a command for each of some. */
const manyServices = 1000;
