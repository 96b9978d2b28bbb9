import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {serviceNameLabel} from '../../model/endpoint.ts';

/** What is missing from a list of API objects. */
export interface Gaps {
  /** Unusable items, unchanged. */
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
 * Marks objects that may exist although they are not in the lists, so that nothing is reported as stale, or as without endpoints, because
 * of it. If a slice was left out, the endpoints of its Service are incomplete; in truncated lists every Service may be incomplete.
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

/** It is unknown which Services the missing endpoints belong to. */
function isUnknown({leftOut, isTruncated}: Gaps, serviceOf: (item: unknown) => readonly string[]): boolean {
  return isTruncated || leftOut.some(item => serviceOf(item).length === 0);
}

interface Named {
  readonly metadata?: {readonly namespace?: unknown; readonly name?: unknown; readonly labels?: {readonly [name: string]: unknown}};
}

function serviceOfSlice(item: unknown): readonly string[] {
  const {metadata} = (item ?? {}) as Named;
  return serviceName(metadata?.namespace, metadata?.labels?.[serviceNameLabel]);
}

function serviceOfEndpoints(item: unknown): readonly string[] {
  const {metadata} = (item ?? {}) as Named;
  return serviceName(metadata?.namespace, metadata?.name);
}

/** Empty if one of them is unknown. */
function serviceName(namespace: unknown, name: unknown): readonly string[] {
  return typeof name === 'string' && (namespace === undefined || typeof namespace === 'string') ? [namespacedName({namespace, name})] : [];
}
