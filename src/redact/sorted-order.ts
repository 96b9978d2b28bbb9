import type {EndpointAddress, EndpointsObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {compareText} from '../model/text.ts';

/**
 * kube-proxy sorts endpoints by their text, and replaced addresses sort differently. If the old ones were sorted, gives for each position
 * the index of the new one that belongs there. Null if no order has to change.
 */
export function sortedOrder(before: readonly string[], after: readonly string[]): readonly number[] | null {
  if (!isSorted(before) || isSorted(after)) return null;
  return after
    .map((text, index) => ({text, index}))
    .sort((a, b) => compareText(a.text, b.text))
    .map(({index}) => index);
}

function isSorted(texts: readonly string[]): boolean {
  return texts.every((text, index) => index === 0 || compareText(texts[index - 1] ?? '', text) <= 0);
}

/** kube-proxy uses the addresses of Endpoints objects in their order: a list that was sorted is sorted again. */
export function sortSubsets(before: ApiObjects, after: ApiObjects): ApiObjects {
  const endpoints = after.endpoints?.map((object, index) => sortObject(before.endpoints?.[index], object)) ?? null;
  return {...after, endpoints};
}

function sortObject(before: EndpointsObject | undefined, after: EndpointsObject): EndpointsObject {
  if (!Array.isArray(after.subsets)) return after;
  const subsets = after.subsets.map((subset, index) => ({
    ...subset,
    addresses: sortAddresses(before?.subsets?.[index]?.addresses ?? [], subset.addresses ?? []),
  }));
  return {...after, subsets};
}

function sortAddresses(before: readonly EndpointAddress[], after: readonly EndpointAddress[]): readonly EndpointAddress[] {
  const order = sortedOrder(before.map(hostPrefix), after.map(hostPrefix));
  return order === null ? after : order.flatMap(index => after[index] ?? []);
}

/** As kube-proxy writes it, followed by the port. */
function hostPrefix({ip = ''}: EndpointAddress): string {
  return ip.includes(':') ? `[${ip}]:` : `${ip}:`;
}
