import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/** What a list of API objects lacks of what it should hold. */
export interface Gaps {
  /** Items that cannot be used, as they are. */
  readonly leftOut: readonly unknown[];
  /** It is the first page of a longer list. */
  readonly isTruncated: boolean;
}

export const noGaps: Gaps = {leftOut: [], isTruncated: false};

interface ServiceGaps {
  readonly services: Gaps;
  readonly endpointSlices: Gaps;
  readonly endpoints: Gaps;
}

/**
 * Marks what may be there and is not in the lists, so that nothing is reported as stale, or as without endpoints, because of it: of a Service
 * whose slice was left out, not all endpoints are known; of truncated lists, no Service is known to be complete.
 */
export function acrossGaps(api: ApiObjects, gaps: ServiceGaps): ApiObjects {
  const {services, endpointSlices, endpoints} = gaps;
  const slices = isUnknown(endpointSlices, serviceOfSlice) ? null : api.endpointSlices;
  const whole = isUnknown(endpoints, serviceOfEndpoints) ? null : api.endpoints;
  const unsure = new Set([
    ...(api.unsure ?? []),
    ...endpointSlices.leftOut.flatMap(serviceOfSlice),
    ...endpoints.leftOut.flatMap(serviceOfEndpoints),
  ]);
  const lacks = [services, endpointSlices, endpoints].some(({leftOut, isTruncated}) => isTruncated || leftOut.length > 0);
  return {...api, endpointSlices: slices, endpoints: whole, ...(unsure.size > 0 ? {unsure} : {}), ...(lacks ? {namespaces: []} : {})};
}

/** It is unknown which Services have endpoints that are missing here. */
function isUnknown({leftOut, isTruncated}: Gaps, serviceOf: (item: unknown) => readonly string[]): boolean {
  return isTruncated || leftOut.some(item => serviceOf(item).length === 0);
}

interface Named {
  readonly metadata?: {readonly namespace?: unknown; readonly name?: unknown; readonly labels?: {readonly [name: string]: unknown}};
}

function serviceOfSlice(item: unknown): readonly string[] {
  const {metadata} = (item ?? {}) as Named;
  return serviceName(metadata?.namespace, metadata?.labels?.['kubernetes.io/service-name']);
}

function serviceOfEndpoints(item: unknown): readonly string[] {
  const {metadata} = (item ?? {}) as Named;
  return serviceName(metadata?.namespace, metadata?.name);
}

/** Empty when one of them is not known. */
function serviceName(namespace: unknown, name: unknown): readonly string[] {
  return typeof name === 'string' && (namespace === undefined || typeof namespace === 'string') ? [namespacedName({namespace, name})] : [];
}
