import type {ServiceObject} from '../../model/api-objects.ts';
import type {SeenVersions} from '../../model/node-result.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {sliceService} from '../../model/endpoint.ts';

/** A Service or slice, and its resourceVersion. */
interface Newest {
  readonly service: string;
  readonly resourceVersion: string;
}

/** The one that changed last among the requested Services and their slices; null if there are none. */
export interface NeededVersions {
  readonly services: Newest | null;
  readonly endpointSlices: Newest | null;
}

export function neededVersions(services: readonly ServiceObject[], {endpointSlices}: Pick<ApiObjects, 'endpointSlices'>): NeededVersions {
  const asked = new Set(services.map(({metadata}) => namespacedName(metadata)));
  const slices = (endpointSlices ?? []).flatMap(slice => {
    const service = sliceService(slice);
    return service !== null && asked.has(service) ? [{service, resourceVersion: slice.metadata.resourceVersion ?? ''}] : [];
  });
  return {
    services: newest(services.map(({metadata}) => ({service: namespacedName(metadata), resourceVersion: metadata.resourceVersion ?? ''}))),
    endpointSlices: newest(slices),
  };
}

/**
 * The Service that changed after the last version seen; null if all changes were seen. A client that has seen a version has seen all
 * earlier ones.
 */
export function unseen(needed: NeededVersions, seen: SeenVersions): string | null {
  const {services, endpointSlices} = needed;
  if (services !== null && !reaches(seen.services, services.resourceVersion)) return services.service;
  if (endpointSlices !== null && !reaches(seen.endpointSlices, endpointSlices.resourceVersion)) return endpointSlices.service;
  return null;
}

function newest(all: readonly Newest[]): Newest | null {
  let latest: Newest | null = null;
  for (const one of all) if (latest === null || !reaches(latest.resourceVersion, one.resourceVersion)) latest = one;
  return latest;
}

/**
 * resourceVersions are increasing decimal numbers, comparable within one kind (KEP-5504). Any other text can only be compared for equality.
 */
function reaches(version: string, other: string): boolean {
  if (version === other) return true;
  return /^\d+$/.test(version) && /^\d+$/.test(other) && BigInt(version) >= BigInt(other);
}
