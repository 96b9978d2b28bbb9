import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {type ClusterScope, listKey} from '../cluster/cluster-reader.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import {shapes} from '../objects/api-shapes.ts';
import {ObjectWatch, type ObjectWatchOptions, StringPool} from './object-watch.ts';
import {type EarlierVersion, PastEvents, versionOf, type PastOptions} from './past-events.ts';

/** An object as a watch or a list shows it; null if it does not exist. Its key is `namespace/name`. */
export type SeenObject = {readonly key: string} & (
  | {readonly kind: 'Service'; readonly object: ServiceObject | null}
  | {readonly kind: 'EndpointSlice'; readonly object: EndpointSliceObject | null}
);
export type WatchedObject = SeenObject & {readonly isListed: boolean};

interface ServiceWatchesOptions {
  readonly scope: ClusterScope;
  /** The objects read before, and the resourceVersions of their lists by path. */
  readonly objects: Pick<ApiObjects, 'services' | 'endpointSlices'>;
  readonly versions: ReadonlyMap<string, string>;
  /** Versions of before these lists, at which the watches may begin to tell what happened since. */
  readonly from?: readonly EarlierVersion[];
  readonly onChange: (seen: WatchedObject) => void;
  /** Called once if a watch is not allowed. */
  readonly onRefused: (error: ApiError) => void;
  readonly backoffMs?: number;
}

/** What happened before the lists, for each kind in each place. */
export type PastOfServices =
  | {readonly kind: 'Service'; readonly events: PastEvents<ServiceObject>}
  | {readonly kind: 'EndpointSlice'; readonly events: PastEvents<EndpointSliceObject>};

/**
 * Watches the Services of a scope and their slices, from the state in which they were read, until the signal is aborted. If one of the
 * watches is refused, all are stopped. `past`: null if it cannot be known. `ended`: resolves when the signal is aborted, or the watches are
 * refused.
 */
export function watchServices(api: KubeApi, options: ServiceWatchesOptions, signal: AbortSignal) {
  const given = new AbortController();
  const either = AbortSignal.any([signal, given.signal]);
  const onFailure = (error: unknown): void => {
    if (!(error instanceof ApiError) || !refusals.has(error.status ?? 0) || given.signal.aborted) return;
    given.abort();
    options.onRefused(error);
  };
  const past: PastOfServices[] = [];
  const watches = watchesOf(api, {...options, onFailure, onPast: part => void past.push(part)});
  return {past: past.length === watches.length ? past : null, ended: Promise.all(watches.map(watch => watch.run(either))).then(() => {})};
}

/** Not allowed, or not served. */
const refusals: ReadonlySet<number> = new Set([401, 403, 404, 405]);

/** Scopes with more places than this are polled: each watch is a connection. */
export const maxWatchedPlaces = 4;

/** One place in which to watch Services and slices. */
interface WatchedPlace {
  readonly path: string;
  readonly services: Readonly<Record<string, string>>;
  readonly slices: Readonly<Record<string, string>>;
  /** Whether an object that was read before is in this place. */
  readonly holds: (object: ServiceObject | EndpointSliceObject, service: string | undefined) => boolean;
}

type WatchOptions = ServiceWatchesOptions & {
  readonly onFailure: (error: unknown) => void;
  readonly onPast: (part: PastOfServices) => void;
};

function watchesOf(api: KubeApi, options: WatchOptions): readonly {run(signal: AbortSignal): Promise<void>}[] {
  const shared = {strings: new StringPool(), onFailure: options.onFailure, backoffMs: options.backoffMs};
  return watchedPlaces(options.scope).flatMap(place => {
    const services = startOf(options, {
      path: servicesPath(place),
      query: place.services,
      shape: shapes.services,
      listed: (options.objects.services ?? []).filter(service => place.holds(service, service.metadata.name)),
    });
    const slices = startOf(options, {
      path: `/apis/discovery.k8s.io/v1${place.path}/endpointslices`,
      query: place.slices,
      shape: shapes.endpointSlices,
      listed: slicesIn(place, options.objects.endpointSlices),
    });
    if (services.start.past !== undefined) options.onPast({kind: 'Service', events: services.start.past});
    if (slices.start.past !== undefined) options.onPast({kind: 'EndpointSlice', events: slices.start.past});
    return Object.values(watchPair(api, {...shared, services, slices}, options.onChange));
  });
}

interface WatchPairOptions extends Pick<ObjectWatchOptions<never>, 'strings' | 'onFailure' | 'backoffMs' | 'silenceMs'> {
  readonly services: Pick<ObjectWatchOptions<ServiceObject>, 'path' | 'query' | 'start'>;
  readonly slices: Pick<ObjectWatchOptions<EndpointSliceObject>, 'path' | 'query' | 'start'>;
}

/** The watch of Services and that of slices, which tell their changes to one listener. */
export function watchPair(api: KubeApi, {services, slices, ...shared}: WatchPairOptions, onChange: (seen: WatchedObject) => void) {
  const {services: shape, endpointSlices: shapeOfSlices} = shapes;
  const [ofService, ofSlice] = [
    {...shared, ...services, shape, kind: 'services'},
    {...shared, ...slices, shape: shapeOfSlices, kind: 'endpointslices'},
  ];
  return {
    services: new ObjectWatch<ServiceObject>(api, {...ofService, onChange: change => onChange({...change, kind: 'Service'})}),
    endpointSlices: new ObjectWatch<EndpointSliceObject>(api, {
      ...ofSlice,
      onChange: change => onChange({...change, kind: 'EndpointSlice'}),
    }),
  };
}

/** Where a watch begins: at the version of the list, or earlier to tell the past as well. */
function startOf<T extends ServiceObject | EndpointSliceObject>(
  {versions, from = []}: WatchOptions,
  {path, query, shape, listed}: Omit<PastOptions<T>, 'until' | 'from'>,
) {
  const resourceVersion = versions.get(listKey(path, query));
  // A single Service is read by name, which tells no version of a list: its own is that of all that happened to it.
  const [only] = listed;
  const until = resourceVersion ?? (query['fieldSelector'] === undefined ? undefined : only?.metadata.resourceVersion);
  const isNumber = versionOf({resourceVersion: until}) !== null;
  const past =
    until === undefined || !isNumber || from.length === 0 ? undefined : new PastEvents<T>({path, query, shape, listed, until, from});
  return {path, query, shape, start: {objects: listed, resourceVersion, past}};
}

/** Where the Services of a scope and their slices are watched. */
export function watchedPlaces(scope: ClusterScope): readonly WatchedPlace[] {
  switch (scope.kind) {
    case 'cluster':
      return [{path: '', services: {}, slices: {}, holds: () => true}];
    case 'namespaces':
      return scope.namespaces.map(namespace => ({
        path: `/namespaces/${encodeURIComponent(namespace)}`,
        services: {},
        slices: {},
        holds: ({metadata}) => metadata.namespace === namespace,
      }));
    case 'services':
      return scope.services.map(({namespace, name}) => ({
        path: `/namespaces/${encodeURIComponent(namespace)}`,
        services: {fieldSelector: `metadata.name=${name}`},
        slices: {labelSelector: `kubernetes.io/service-name=${name}`},
        holds: ({metadata}, service) => metadata.namespace === namespace && service === name,
      }));
  }
}

function slicesIn(place: WatchedPlace, slices: readonly EndpointSliceObject[] | null): readonly EndpointSliceObject[] {
  return (slices ?? []).filter(slice => place.holds(slice, slice.metadata.labels?.['kubernetes.io/service-name']));
}

export function servicesPath({path}: WatchedPlace): string {
  return `/api/v1${path}/services`;
}
