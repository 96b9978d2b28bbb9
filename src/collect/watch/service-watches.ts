import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import type {ClusterScope} from '../cluster/cluster-scope.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import {endpointSliceShape, serviceShape} from '../objects/api-shapes.ts';
import {ObjectWatch, type ObjectWatchOptions} from './object-watch.ts';
import {StringPool} from './trim-object.ts';

/** An object as a watch shows it; null if it was deleted. Its key is `namespace/name`. */
export type WatchedObject = {readonly key: string; readonly isListed: boolean} & (
  | {readonly kind: 'Service'; readonly object: ServiceObject | null}
  | {readonly kind: 'EndpointSlice'; readonly object: EndpointSliceObject | null}
);

interface ServiceWatchesOptions {
  readonly scope: ClusterScope;
  /** The objects read before, and the resourceVersions of their lists by path. */
  readonly objects: Pick<ApiObjects, 'services' | 'endpointSlices'>;
  readonly versions: ReadonlyMap<string, string>;
  readonly onChange: (seen: WatchedObject) => void;
  /** Called once if a watch is not allowed. */
  readonly onRefused: (error: ApiError) => void;
  readonly backoffMs?: number;
}

/**
 * Watches the Services of a scope and their slices, from the state in which they were read, until the signal is aborted. If one of the
 * watches is refused, all are stopped.
 */
export async function watchServices(api: KubeApi, options: ServiceWatchesOptions, signal: AbortSignal): Promise<void> {
  const given = new AbortController();
  const either = AbortSignal.any([signal, given.signal]);
  const onFailure = (error: unknown): void => {
    if (!(error instanceof ApiError) || !refusals.has(error.status ?? 0) || given.signal.aborted) return;
    given.abort();
    options.onRefused(error);
  };
  await Promise.all(watchesOf(api, {...options, onFailure}).map(watch => watch.run(either)));
}

/** Not allowed, or not served. */
const refusals: ReadonlySet<number> = new Set([401, 403, 404, 405]);

/** Scopes with more places than this are polled: each watch is a connection. */
export const maxWatchedPlaces = 4;

/** One place in which to watch Services and slices. */
export interface WatchedPlace {
  readonly path: string;
  readonly services: Readonly<Record<string, string>>;
  readonly slices: Readonly<Record<string, string>>;
  /** Whether an object that was read before is in this place. */
  readonly holds: (object: ServiceObject | EndpointSliceObject, service: string | undefined) => boolean;
}

type WatchOptions = ServiceWatchesOptions & {readonly onFailure: (error: unknown) => void};

function watchesOf(api: KubeApi, options: WatchOptions): readonly {run(signal: AbortSignal): Promise<void>}[] {
  const strings = new StringPool();
  return watchedPlaces(options.scope).flatMap(place => {
    const shared = <T>(path: string, query: Readonly<Record<string, string>>, objects: readonly T[]) => ({
      ...{strings, path, query, onFailure: options.onFailure},
      start: {objects, resourceVersion: Object.keys(query).length === 0 ? options.versions.get(path) : undefined},
      ...(options.backoffMs === undefined ? {} : {backoffMs: options.backoffMs}),
    });
    const services = servicesIn(place, options.objects.services);
    const slices = slicesIn(place, options.objects.endpointSlices);
    const own: ObjectWatchOptions<ServiceObject> = {
      ...shared(servicesPath(place), place.services, services),
      ...{kind: 'services', shape: serviceShape},
      onChange: (now, before, isListed) => options.onChange({kind: 'Service', key: keyOf(now ?? before), object: now ?? null, isListed}),
    };
    const ofSlices: ObjectWatchOptions<EndpointSliceObject> = {
      ...shared(slicesPath(place), place.slices, slices),
      ...{kind: 'endpointslices', shape: endpointSliceShape},
      onChange: (now, before, isListed) =>
        options.onChange({kind: 'EndpointSlice', key: keyOf(now ?? before), object: now ?? null, isListed}),
    };
    return [new ObjectWatch(api, own), new ObjectWatch(api, ofSlices)];
  });
}

/** Where the Services of a scope and their slices are watched. */
export function watchedPlaces(scope: ClusterScope): readonly WatchedPlace[] {
  switch (scope.kind) {
    case 'cluster':
      return [{path: '', services: {}, slices: {}, holds: () => true}];
    case 'namespaces':
      return scope.namespaces.map(namespace => ({
        ...{path: `/namespaces/${encodeURIComponent(namespace)}`, services: {}, slices: {}},
        holds: ({metadata}) => metadata.namespace === namespace,
      }));
    case 'services':
      return scope.services.map(placeOfService);
  }
}

export function servicesIn(place: WatchedPlace, services: readonly ServiceObject[] | null): readonly ServiceObject[] {
  return (services ?? []).filter(service => place.holds(service, service.metadata.name));
}

export function slicesIn(place: WatchedPlace, slices: readonly EndpointSliceObject[] | null): readonly EndpointSliceObject[] {
  return (slices ?? []).filter(slice => place.holds(slice, slice.metadata.labels?.['kubernetes.io/service-name']));
}

export function servicesPath({path}: WatchedPlace): string {
  return `/api/v1${path}/services`;
}

export function slicesPath({path}: WatchedPlace): string {
  return `/apis/discovery.k8s.io/v1${path}/endpointslices`;
}

function placeOfService({namespace, name}: ServiceName): WatchedPlace {
  return {
    path: `/namespaces/${encodeURIComponent(namespace)}`,
    services: {fieldSelector: `metadata.name=${name}`},
    slices: {labelSelector: `kubernetes.io/service-name=${name}`},
    holds: ({metadata}, service) => metadata.namespace === namespace && service === name,
  };
}

function keyOf(object: ServiceObject | EndpointSliceObject | undefined): string {
  return `${object?.metadata.namespace ?? 'default'}/${object?.metadata.name ?? ''}`;
}
