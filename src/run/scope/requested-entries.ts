import {manyChains, type RequestedEntries} from '../../collect/node/read-chains.ts';
import {ApiError, type KubeApi} from '../../collect/kube/kube-api.ts';
import {canonicalAddress} from '../../model/address.ts';
import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {likelyChains} from './likely-chains.ts';

/** The addresses and node ports at which clients reach these Services, and their names. `chainsOfPort` is of the whole cluster. */
export function requestedEntries(
  services: readonly ServiceObject[],
  slices: readonly EndpointSliceObject[],
  chainsOfPort: number,
): RequestedEntries {
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
    chainsOfPort,
    likelyChains: likelyChains(services, slices),
  };
}

/**
 * How many chains a Service port of a big cluster has on average, estimated from some EndpointSlices; null where the nodes have so few
 * chains that all are read at once, and where the slices of all namespaces may not be listed.
 */
export async function chainsOfPort(api: KubeApi, signal: AbortSignal): Promise<number | null> {
  try {
    const {items, metadata} = await api.get<SlicePage>('/apis/discovery.k8s.io/v1/endpointslices', {limit: '20'}, {signal, once: true});
    const sample = items ?? [];
    const endpoints = sample.reduce((sum, slice) => sum + (slice.endpoints?.length ?? 0), 0);
    const chains = 1 + Math.max(usualEndpoints, endpoints / Math.max(1, sample.length));
    return (sample.length + (metadata?.remainingItemCount ?? 0)) * chains >= manyChains ? chains : null;
  } catch (error) {
    if (error instanceof ApiError || signal.aborted) return null;
    throw error;
  }
}

interface SlicePage {
  readonly items?: readonly {readonly endpoints?: readonly unknown[] | null}[] | null;
  readonly metadata?: {readonly remainingItemCount?: number};
}

/** Assumed at least: slices are listed by their names, and the first namespaces may be those with small Services. */
const usualEndpoints = 5;
