import {writtenAt} from '../expect/api-index.ts';
import {largest} from '../model/lists.ts';
import type {ServiceObjects} from '../collect/cluster/read-cluster.ts';
import type {SeenObject} from '../collect/watch/service-watches.ts';
import type {EndpointSliceObject, ObjectMeta, ServiceObject} from '../model/api-objects.ts';
import {sliceService} from '../model/endpoint.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import type {StateChange, StateHistory} from '../model/state-history.ts';
import {servicesOf} from '../expect/cluster/service-states.ts';
import {namespacedName} from '../model/text.ts';

/**
 * The states of Services and their slices since they were first read. A watch delivers every state, a repeated list only the latest. Times
 * are milliseconds since 1970.
 */
export class ServiceHistory {
  #since: number;
  #changes: StateChange[] = [];
  /** How many of them, the first ones, happened before the objects were first read. */
  #recalled = 0;
  readonly #services: Map<string, ServiceObject>;
  readonly #slices: Map<string, EndpointSliceObject>;
  /** The last state of deleted objects. */
  readonly #gone = new Map<string, {readonly metadata: ObjectMeta}>();
  /** The scope of the first read. */
  readonly #namespaces: readonly string[] | undefined;
  readonly #named: ReadonlySet<string>;
  /** When all Services were read, if only some had been read before. */
  #widenedAt: number | null = null;
  #updatedAt: number;
  /** How far the clock here is ahead of that of the API server, in milliseconds. */
  readonly #clockAheadMs: number;

  /** `since`: when the read of these objects ended. */
  constructor(api: ApiObjects, since: number, clockAheadMs = 0) {
    this.#since = since;
    this.#clockAheadMs = clockAheadMs;
    this.#updatedAt = since;
    this.#services = byKey(api.services);
    this.#slices = byKey(api.endpointSlices);
    this.#namespaces = api.namespaces;
    this.#named = new Set(this.#services.keys());
  }

  /** A copy of the current history; later changes are not in it. */
  get states(): StateHistory {
    return {since: this.#since, changes: [...this.#changes]};
  }

  /** Adds what is known now of the time before the objects were first read, in place of what was known of it before. */
  recall({since, changes}: StateHistory): void {
    if (since >= this.#since) return;
    this.#since = since;
    this.#changes = [...changes, ...this.#changes.slice(this.#recalled)];
    this.#recalled = changes.length;
  }

  /** Discards states before this time, for a history that lives as long as the process. */
  forgetBefore(time: number): void {
    if (this.#since >= time) return;
    this.#since = time;
    if ((this.#changes[0]?.at ?? Infinity) >= time) return;
    this.#changes = this.#changes.filter(({at}) => at >= time);
    if (this.#changes.length === 0) this.#gone.clear();
  }

  /** Records a change of the object. `after` is set if the time of the change is unknown: it was later than this. */
  note(seen: SeenObject, at: number, after?: number): void {
    const known = this.#known(seen);
    if (isSameVersion(known, seen.object) || isOlder(seen.object, known)) return;
    const goneKey = `${seen.kind} ${seen.key}`;
    // A list can be older than the last event of the watch.
    if (seen.object !== null && reaches(this.#gone.get(goneKey) ?? null, seen.object)) return;
    if (seen.object === null && known !== null) this.#gone.set(goneKey, known);
    const time = {at, after};
    if (seen.kind === 'Service') {
      this.#changes.push({...time, kind: 'Service', before: this.#services.get(seen.key) ?? null, now: seen.object});
      put(this.#services, seen.key, seen.object);
    } else {
      this.#changes.push({...time, kind: 'EndpointSlice', before: this.#slices.get(seen.key) ?? null, now: seen.object});
      put(this.#slices, seen.key, seen.object);
    }
  }

  /** Whether all read states of one Service, `namespace/name`, and its slices are in the history: no watch event is outstanding. */
  hasSeen(service: string, {services, endpointSlices}: ServiceObjects): boolean {
    return (
      hasAll(this.#services, services, ({metadata}) => namespacedName(metadata) === service) &&
      hasAll(this.#slices, endpointSlices, slice => isOf(slice, service))
    );
  }

  /** The same for all followed Services. */
  has({services, endpointSlices}: ServiceObjects): boolean {
    return (
      hasAll(this.#services, services, ({metadata}) => this.#covers(namespacedName(metadata))) &&
      hasAll(this.#slices, endpointSlices, slice => this.#coversSlice(slice))
    );
  }

  /** Records objects that were read again. A state that is new here happened after the previous read, and may not be the only one. */
  update(api: ServiceObjects & Pick<ApiObjects, 'namespaces'>, readAt: number): void {
    const isWider = this.#namespaces !== undefined && api.namespaces === undefined && this.#widenedAt === null;
    const [services, slices] = [byKey(api.services), byKey(api.endpointSlices)];
    if (isWider) this.#widen(services, slices, readAt);
    const after = this.#updatedAt;
    for (const [key, object] of services) this.note({kind: 'Service', key, object}, readAt, after);
    for (const key of missingIn(services, this.#services))
      if (this.#isReadIn(api, key)) this.note({kind: 'Service', key, object: null}, readAt, after);
    if (api.endpointSlices !== null) {
      for (const [key, object] of slices) this.note({kind: 'EndpointSlice', key, object}, readAt, after);
      for (const [key, slice] of [...this.#slices])
        if (!slices.has(key) && this.#isReadIn(api, placeOf(slice))) this.note({kind: 'EndpointSlice', key, object: null}, readAt, after);
    }
    this.#updatedAt = readAt;
  }

  /** Whether a read includes the Service if it exists: later reads can have a narrower scope. */
  #isReadIn({namespaces}: {readonly namespaces?: readonly string[] | undefined}, service: string): boolean {
    return namespaces === undefined || this.#named.has(service) || namespaces.includes(service.split('/', 1)[0] ?? '');
  }

  /** From when on every state of a Service, `namespace/name`, is known. */
  knownSince(service: string): number {
    const own = this.#changes.filter(change => servicesOf(change).includes(service));
    const missed = Math.max(0, largest(own.map(({at, after}) => (after === undefined ? 0 : at))));
    const since = this.#coversFromStart(service) ? this.#since : (this.#widenedAt ?? this.#since);
    return missed > 0 ? Math.max(missed, since) : Math.min(since, this.#writtenAt(service, own) ?? since);
  }

  /** Whether a Service, `namespace/name`, changed after this time. */
  hasChanged(service: string, since: number): boolean {
    return this.#changes.some(change => change.at > since && servicesOf(change).includes(service));
  }

  /** The Services that changed after this time and have unknown states. */
  get partlyKnown(): readonly string[] {
    const read = [...this.#services].map(([key, {metadata}]) => [key, metadata] as const);
    const owned = [...this.#slices.values()].flatMap(slice => {
      const service = sliceService(slice);
      return service === null ? [] : [[service, slice.metadata] as const];
    });
    const young = [...read, ...owned]
      .filter(([, metadata]) => changedAt(metadata, this.#clockAheadMs) > this.#since - maxYouth)
      .map(([key]) => key);
    return [...new Set([...young, ...this.#changes.flatMap(servicesOf)])];
  }

  #known({kind, key}: SeenObject): {readonly metadata: ObjectMeta} | null {
    return (kind === 'Service' ? this.#services.get(key) : this.#slices.get(key)) ?? null;
  }

  #widen(services: ReadonlyMap<string, ServiceObject>, slices: ReadonlyMap<string, EndpointSliceObject>, readAt: number): void {
    this.#widenedAt = readAt;
    for (const [key, object] of services) if (!this.#services.has(key) && !this.#coversFromStart(key)) this.#services.set(key, object);
    for (const [key, object] of slices)
      if (!this.#slices.has(key) && !this.#coversFromStart(placeOf(object))) this.#slices.set(key, object);
  }

  #covers(service: string): boolean {
    return this.#widenedAt !== null || this.#coversFromStart(service);
  }

  #coversSlice(slice: EndpointSliceObject): boolean {
    return this.#covers(placeOf(slice));
  }

  /** Whether the first read would have included the Service if it had existed. */
  #coversFromStart(service: string): boolean {
    return this.#isReadIn({namespaces: this.#namespaces}, service);
  }

  /** When the first known state began, according to timestamps in the objects; null if they have none. */
  #writtenAt(service: string, changes: readonly StateChange[]): number | null {
    const first = <T>(key: string, objects: ReadonlyMap<string, T>, kind: StateChange['kind']): T | null => {
      const change = changes.find(one => one.kind === kind && keyOf(one) === key);
      return change === undefined ? (objects.get(key) ?? null) : (change.before as T | null);
    };
    const object = first(service, this.#services, 'Service');
    const keys = new Set([
      ...[...this.#slices].filter(([, slice]) => isOf(slice, service)).map(([key]) => key),
      ...changes.flatMap(change => (change.kind === 'EndpointSlice' ? keyOf(change) : [])),
    ]);
    const slices = [...keys].map(key => first<EndpointSliceObject>(key, this.#slices, 'EndpointSlice')).filter(slice => slice !== null);
    // A deleted slice or Service leaves no timestamp.
    if (object === null || slices.length === 0) return null;
    const times = [object, ...slices].map(({metadata}) => changedAt(metadata, this.#clockAheadMs));
    return largest(times);
  }
}

/** A text that changes whenever one of these Services or its slices changes. */
export function printOf(services: readonly ServiceObject[], objects: ServiceObjects): string {
  const prints = printsOf(objects);
  const keys = services.map(({metadata}) => namespacedName(metadata)).sort();
  return JSON.stringify(keys.map(key => [key, prints.get(key)]));
}

/** By `namespace/name`. */
function printsOf({services, endpointSlices, endpoints}: ServiceObjects): ReadonlyMap<string, string> {
  const prints = new Map<string, string>();
  const add = (key: string | null, {name, resourceVersion}: ObjectMeta): void => {
    if (key !== null) prints.set(key, `${prints.get(key) ?? ''} ${name}:${resourceVersion ?? ''}`);
  };
  for (const {metadata} of services ?? []) add(namespacedName(metadata), metadata);
  const slices = (endpointSlices ?? []).toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  for (const slice of slices) add(sliceService(slice), slice.metadata);
  for (const {metadata} of endpoints ?? []) add(namespacedName(metadata), metadata);
  return prints;
}

/** A change that was recorded longer ago than this is not a matter of timing. In milliseconds. */
const maxYouth = 60_000;

function isOf(slice: EndpointSliceObject, service: string): boolean {
  return sliceService(slice) === service;
}

/** The Service that decides whether a read includes the slice: `namespace/name`, or `namespace/` of a slice without a Service. */
function placeOf(slice: EndpointSliceObject): string {
  return sliceService(slice) ?? namespacedName({...slice.metadata, name: ''});
}

function byKey<T extends {readonly metadata: ObjectMeta}>(objects: readonly T[] | null): Map<string, T> {
  return new Map((objects ?? []).map(object => [namespacedName(object.metadata), object]));
}

function keyOf({before, now}: StateChange): string {
  return namespacedName((before ?? now)?.metadata ?? {name: ''});
}

/** Whether each object that was read is in the history, and no object of the history that is older than the read is missing from it. */
function hasAll<T extends {readonly metadata: ObjectMeta}>(
  history: ReadonlyMap<string, T>,
  objects: readonly T[] | null,
  isOwn: (object: T) => boolean,
): boolean {
  const read = byKey((objects ?? []).filter(isOwn));
  return (
    [...read].every(([key, object]) => reaches(history.get(key) ?? null, object)) &&
    missingIn(read, new Map([...history].filter(([, object]) => isOwn(object)))).length === 0
  );
}

/** The objects of the history that were not read, except those newer than the read. */
function missingIn<T extends {readonly metadata: ObjectMeta}>(
  read: ReadonlyMap<string, T>,
  history: ReadonlyMap<string, T>,
): readonly string[] {
  let newest: T | null = null;
  for (const object of read.values()) if (newest === null || isOlder(newest, object)) newest = object;
  return [...history].filter(([key, object]) => !read.has(key) && (newest === null || !isOlder(newest, object))).map(([key]) => key);
}

function put<T>(map: Map<string, T>, key: string, object: T | null): void {
  if (object === null) map.delete(key);
  else map.set(key, object);
}

type VersionedObject = {readonly metadata: ObjectMeta} | null;

function isSameVersion(one: VersionedObject, other: VersionedObject): boolean {
  if (one === null || other === null) return one === other;
  return one === other || (one.metadata.resourceVersion !== undefined && one.metadata.resourceVersion === other.metadata.resourceVersion);
}

function reaches(inHistory: VersionedObject, seen: VersionedObject): boolean {
  return inHistory !== null && (isSameVersion(inHistory, seen) || isOlder(seen, inHistory));
}

/** resourceVersions of one kind increase (KEP-5504). */
function isOlder(one: VersionedObject, other: VersionedObject): boolean {
  const [version, known] = [one?.metadata.resourceVersion ?? '', other?.metadata.resourceVersion ?? ''];
  return /^\d+$/.test(version) && /^\d+$/.test(known) && BigInt(version) < BigInt(known);
}

/**
 * When an object was last written, by what the API server and the controllers note in it, in milliseconds since 1970; 0 when they do not.
 * `clockAheadMs` is how far the clock here is ahead of theirs.
 */
export function changedAt(metadata: ObjectMeta, clockAheadMs = 0): number {
  const latest = writtenAt(metadata);
  return latest === 0 ? 0 : latest + clockAheadMs;
}
