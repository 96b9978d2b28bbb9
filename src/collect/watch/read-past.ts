import type {EndpointSliceObject, ObjectMeta, ServiceObject} from '../../model/api-objects.ts';
import type {StateChange} from '../../model/state-history.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import type {ClusterScope} from '../cluster/cluster-scope.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import {maxSilence} from '../kube/send-request.ts';
import {endpointSliceShape, serviceShape} from '../objects/api-shapes.ts';
import type {Shape} from '../objects/object-shape.ts';
import {usableItems} from '../objects/usable-items.ts';
import {readList} from './read-list.ts';
import {servicesIn, servicesPath, slicesIn, slicesPath, watchedPlaces} from './service-watches.ts';
import {type WatchEvent, watchEvents} from './watch-events.ts';

interface PastOptions {
  readonly scope: ClusterScope;
  /** Up to where: the objects as they were listed. */
  readonly objects: Pick<ApiObjects, 'services' | 'endpointSlices'>;
  /** The resourceVersions of these lists, by their paths. */
  readonly versions: ReadonlyMap<string, string>;
  /** From where on: a resourceVersion. */
  readonly version: string;
  readonly signal: AbortSignal;
}

/** A change without its time, which the API server does not keep. */
type PastChange = Pick<StateChange, 'kind' | 'before' | 'now'>;

export interface Past {
  /** As they were at the version. */
  readonly objects: readonly {readonly metadata: ObjectMeta}[];
  /** From there to the objects that were listed: those of each kind and place in the order in which they happened. */
  readonly changes: readonly PastChange[];
}

/**
 * What Services and slices were at an earlier resourceVersion, and all that changed from there to a list that was read later. Null where
 * the API server does not know that any more, or does not answer so.
 */
export async function readPast(api: KubeApi, {scope, objects, versions, version, signal}: PastOptions): Promise<Past | null> {
  const end = new AbortController();
  const both = AbortSignal.any([signal, end.signal]);
  const read = <T extends Versioned>(what: Omit<PastOfKind<T>, 'until'>) => {
    const until = Object.keys(what.query).length === 0 ? versions.get(what.path) : undefined;
    return readKind<T>(api, {...what, version, until}, both);
  };
  try {
    const parts = await Promise.all(
      watchedPlaces(scope).flatMap(place => [
        read<ServiceObject>({
          ...{kind: 'Service', path: servicesPath(place), query: place.services, shape: serviceShape},
          known: servicesIn(place, objects.services),
        }),
        read<EndpointSliceObject>({
          ...{kind: 'EndpointSlice', path: slicesPath(place), query: place.slices, shape: endpointSliceShape},
          known: slicesIn(place, objects.endpointSlices),
        }),
      ]),
    );
    return {objects: parts.flatMap(part => part.objects), changes: parts.flatMap(part => part.changes)};
  } catch (error) {
    // 410 or 400: it is only what was not known before.
    if (error instanceof ApiError || error instanceof CannotTell) return null;
    throw error;
  } finally {
    end.abort(new Error('the past was read'));
  }
}

type Versioned = ServiceObject | EndpointSliceObject;

interface PastOfKind<T> {
  readonly kind: StateChange['kind'];
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly shape: Shape;
  /** As they were listed. */
  readonly known: readonly T[];
  /** The resourceVersion of that list; undefined where it was not said. */
  readonly until: string | undefined;
}

/** The events do not lead from the one list to the other. */
class CannotTell extends Error {}

async function readKind<T extends Versioned>(
  api: KubeApi,
  {version, path, query, known, ...what}: PastOfKind<T> & {readonly version: string},
  signal: AbortSignal,
): Promise<Past> {
  const options = {signal, silenceMs: maxSilence};
  const [listed, events] = await Promise.all([
    api.stream(path, {...query, resourceVersion: version, resourceVersionMatch: 'Exact'}, options),
    api.stream(path, {...query, watch: '1', resourceVersion: version, timeoutSeconds: '10'}, options),
  ]);
  const objects: T[] = [];
  const metadata = await readList(listed, item => objects.push(usable<T>(path, item, what.shape)));
  // A server that does not know `Exact` gives what there is now.
  if (metadata.resourceVersion !== version || metadata.continue) throw new CannotTell();
  const changes = await replay(watchEvents(events), {path, ...what, objects, known});
  return {objects, changes};
}

interface Replay<T> extends Pick<PastOfKind<T>, 'kind' | 'path' | 'shape' | 'known' | 'until'> {
  readonly objects: readonly T[];
}

/** Applies the events to the objects until these are the known ones, and no other event can come before they were listed. */
async function replay<T extends Versioned>(
  events: AsyncGenerator<WatchEvent, void, void>,
  {kind, path, shape, objects, known, until}: Replay<T>,
): Promise<readonly PastChange[]> {
  const [now, target] = [byKey(objects), byKey(known)];
  const changes: PastChange[] = [];
  // How many of the changes lead to the known objects.
  let leading = isSame(now, target) ? 0 : null;
  for (let deadline = Date.now() + maxDelay; Date.now() < deadline; ) {
    const event = await nextWithin(events, leading === changes.length ? maxQuiet : maxDelay);
    if (event === null) break;
    if (event.type === 'ERROR') throw new CannotTell();
    const object = usable<T>(path, event.object, shape);
    if (until !== undefined && isLater(object.metadata, until)) break;
    const key = namespacedName(object.metadata);
    const before = now.get(key) ?? null;
    const next = event.type === 'DELETED' ? null : object;
    if (next === null) now.delete(key);
    else now.set(key, next);
    changes.push({kind, before, now: next} as PastChange);
    if (!isSame(now, target)) continue;
    if (leading === null) deadline = Date.now() + 2 * maxQuiet;
    leading = changes.length;
  }
  if (leading === null) throw new CannotTell();
  return changes.slice(0, leading);
}

/** Null where nothing comes for so many milliseconds. */
async function nextWithin(events: AsyncGenerator<WatchEvent, void, void>, milliseconds: number): Promise<WatchEvent | null> {
  const {promise, resolve} = Promise.withResolvers<null>();
  const timer = setTimeout(() => resolve(null), milliseconds);
  const next = events.next().then(({value}) => value ?? null);
  // Nobody waits for it any more when the watch is broken off.
  next.catch(() => {});
  return Promise.race([next, promise]).finally(() => clearTimeout(timer));
}

/** What the API server remembers it sends at once. In milliseconds. */
const [maxQuiet, maxDelay] = [150, 1000];

function usable<T>(path: string, item: unknown, shape: Shape): T {
  const [object] = usableItems<T>(path, [item], shape).items;
  if (object === undefined) throw new CannotTell();
  return object;
}

function isSame(one: ReadonlyMap<string, Versioned>, other: ReadonlyMap<string, Versioned>): boolean {
  if (one.size !== other.size) return false;
  return [...one].every(([key, {metadata}]) => other.get(key)?.metadata.resourceVersion === metadata.resourceVersion);
}

function byKey<T extends Versioned>(objects: readonly T[]): Map<string, T> {
  return new Map(objects.map(object => [namespacedName(object.metadata), object]));
}

function isLater({resourceVersion = ''}: ObjectMeta, until: string): boolean {
  return /^\d+$/.test(resourceVersion) && /^\d+$/.test(until) && BigInt(resourceVersion) > BigInt(until);
}
