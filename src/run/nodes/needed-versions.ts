import type {ServiceObject} from '../../model/api-objects.ts';
import type {SeenVersions} from '../../model/node-result.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/** A Service or slice, and the version that it has. */
interface Newest {
  readonly service: string;
  readonly resourceVersion: string;
}

/** Of the Services that were asked for and of their slices the one that changed last; null where there are none. */
export interface NeededVersions {
  readonly services: Newest | null;
  readonly endpointSlices: Newest | null;
}

export function neededVersions(services: readonly ServiceObject[], {endpointSlices}: Pick<ApiObjects, 'endpointSlices'>): NeededVersions {
  const asked = new Set(services.map(({metadata}) => namespacedName(metadata)));
  const slices = (endpointSlices ?? []).map(({metadata}) => ({
    service: `${metadata.namespace}/${metadata.labels?.['kubernetes.io/service-name']}`,
    resourceVersion: metadata.resourceVersion ?? '',
  }));
  return {
    services: newest(services.map(({metadata}) => ({service: namespacedName(metadata), resourceVersion: metadata.resourceVersion ?? ''}))),
    endpointSlices: newest(slices.filter(({service}) => asked.has(service))),
  };
}

/** A Service that changed after what was seen; null when all is seen. Whoever sees up to a version has seen all changes before it. */
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
 * resourceVersions are decimal numbers that grow, of one kind comparable (KEP-5504). What is none, nobody can tell to have been
 * reached, unless it is the same.
 */
function reaches(version: string, other: string): boolean {
  if (version === other) return true;
  return /^\d+$/.test(version) && /^\d+$/.test(other) && BigInt(version) >= BigInt(other);
}
