import type {ServiceObjects} from '../collect/cluster/read-cluster.ts';
import type {EndpointSliceObject, ObjectMeta, ServiceObject} from '../model/api-objects.ts';
import {type StateChange, type StateHistory, servicesOf} from '../model/state-history.ts';
import type {ApiObjects} from '../model/snapshot.ts';

/** An object as a watch or a list shows it; null where it is not there. */
type SeenObject =
  | {readonly kind: 'Service'; readonly key: string; readonly object: ServiceObject | null}
  | {readonly kind: 'EndpointSlice'; readonly key: string; readonly object: EndpointSliceObject | null};

/**
 * The states that Services and their slices had since they were first read: by a watch, which tells each of them, and by reading them
 * again, which tells the latest. Times are milliseconds since 1970.
 */
export class ServiceHistory {
  #since: number;
  #changes: StateChange[] = [];
  readonly #services: Map<string, ServiceObject>;
  readonly #slices: Map<string, EndpointSliceObject>;
  /** Deleted objects as they were at last. */
  readonly #gone = new Map<string, {readonly metadata: ObjectMeta}>();
  /** What the first reading was limited to. */
  readonly #namespaces: readonly string[] | undefined;
  readonly #named: ReadonlySet<string>;
  /** When all Services were read although only some had been before. */
  #widenedAt: number | null = null;
  #updatedAt: number;

  /** `since`: when the reading of these objects ended. */
  constructor(api: ApiObjects, since: number) {
    this.#since = since;
    this.#updatedAt = since;
    this.#services = byKey(api.services);
    this.#slices = byKey(api.endpointSlices);
    this.#namespaces = api.namespaces;
    this.#named = new Set(this.#services.keys());
  }

  /** As it is now: what comes later is not in it. */
  get states(): StateHistory {
    return {since: this.#since, changes: [...this.#changes]};
  }

  /** Forgets the states of before this time, for a history that is kept as long as a process lives. */
  forgetBefore(time: number): void {
    if (this.#since >= time) return;
    this.#since = time;
    if ((this.#changes[0]?.at ?? Infinity) >= time) return;
    this.#changes = this.#changes.filter(({at}) => at >= time);
    if (this.#changes.length === 0) this.#gone.clear();
  }

  /** The object has changed. `after` where that was not seen as it happened: it was later than this. */
  note(seen: SeenObject, at: number, after?: number): void {
    const known = this.#known(seen);
    if (isSameVersion(known, seen.object) || isOlder(seen.object, known)) return;
    const goneKey = `${seen.kind} ${seen.key}`;
    // A list can be older than what the watch has told.
    if (seen.object !== null && reaches(this.#gone.get(goneKey) ?? null, seen.object)) return;
    if (seen.object === null && known !== null) this.#gone.set(goneKey, known);
    const time = {at, ...(after === undefined ? {} : {after})};
    if (seen.kind === 'Service') {
      this.#changes.push({...time, kind: 'Service', before: this.#services.get(seen.key) ?? null, now: seen.object});
      put(this.#services, seen.key, seen.object);
    } else {
      this.#changes.push({...time, kind: 'EndpointSlice', before: this.#slices.get(seen.key) ?? null, now: seen.object});
      put(this.#slices, seen.key, seen.object);
    }
  }

  /** Whether all that was read of one Service, `namespace/name`, and its slices is known: nothing is on its way. */
  hasSeen(service: string, {services, endpointSlices}: ServiceObjects): boolean {
    return (
      hasAll(this.#services, services, ({metadata}) => keyOf(metadata) === service) &&
      hasAll(this.#slices, endpointSlices, slice => isOf(slice, service))
    );
  }

  /** The same for all that are followed. */
  has({services, endpointSlices}: ServiceObjects): boolean {
    return (
      hasAll(this.#services, services, ({metadata}) => this.#covers(keyOf(metadata))) &&
      hasAll(this.#slices, endpointSlices, slice => this.#coversSlice(slice))
    );
  }

  /** The objects were read again: what is not known yet happened after they were last read, and perhaps not alone. */
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
      for (const key of [...this.#slices.keys()])
        if (!slices.has(key) && this.#isReadIn(api, ownerOf(this.#slices.get(key))))
          this.note({kind: 'EndpointSlice', key, object: null}, readAt, after);
    }
    this.#updatedAt = readAt;
  }

  /** Whether a reading holds the Service if it is there: later readings can be narrower than an earlier one. */
  #isReadIn({namespaces}: {readonly namespaces?: readonly string[] | undefined}, service: string): boolean {
    return namespaces === undefined || this.#named.has(service) || namespaces.includes(service.split('/', 1)[0] ?? '');
  }

  /** From when on every state of a Service, `namespace/name`, is known. */
  knownSince(service: string): number {
    const own = this.#changes.filter(change => servicesOf(change).includes(service));
    const missed = Math.max(0, ...own.map(({at, after}) => (after === undefined ? 0 : at)));
    const since = this.#coversFromStart(service) ? this.#since : (this.#widenedAt ?? this.#since);
    return missed > 0 ? Math.max(missed, since) : Math.min(since, this.#writtenAt(service, own) ?? since);
  }

  /** Whether a Service, `namespace/name`, was seen to change after this. */
  hasChanged(service: string, since: number): boolean {
    return this.#changes.some(change => change.at > since && servicesOf(change).includes(service));
  }

  /** The Services that changed after this although not all of their states are known. */
  get partlyKnown(): readonly string[] {
    const read = [...this.#services].flatMap(([key, {metadata}]) => [[key, metadata] as const]);
    const slices = [...this.#slices.values()].flatMap(slice => {
      const owner = slice.metadata.labels?.['kubernetes.io/service-name'];
      return owner === undefined ? [] : [[`${slice.metadata.namespace ?? 'default'}/${owner}`, slice.metadata] as const];
    });
    const young = [...read, ...slices].filter(([, metadata]) => changedAt(metadata) > this.#since - maxYouth).map(([key]) => key);
    return [...new Set([...young, ...this.#changes.flatMap(servicesOf)])];
  }

  #known({kind, key}: SeenObject): {readonly metadata: ObjectMeta} | null {
    return (kind === 'Service' ? this.#services.get(key) : this.#slices.get(key)) ?? null;
  }

  #widen(services: ReadonlyMap<string, ServiceObject>, slices: ReadonlyMap<string, EndpointSliceObject>, readAt: number): void {
    this.#widenedAt = readAt;
    for (const [key, object] of services) if (!this.#services.has(key) && !this.#coversFromStart(key)) this.#services.set(key, object);
    for (const [key, object] of slices)
      if (!this.#slices.has(key) && !this.#coversFromStart(ownerOf(object))) this.#slices.set(key, object);
  }

  #covers(service: string): boolean {
    return this.#widenedAt !== null || this.#coversFromStart(service);
  }

  #coversSlice(slice: EndpointSliceObject): boolean {
    return this.#covers(ownerOf(slice));
  }

  /** Whether the Service would have been read at first if it had been there. */
  #coversFromStart(service: string): boolean {
    return this.#isReadIn({namespaces: this.#namespaces}, service);
  }

  /** When the first known state began, by what the API server and the controllers wrote into the objects; null where they do not tell. */
  #writtenAt(service: string, own: readonly StateChange[]): number | null {
    const first = <T>(key: string, objects: ReadonlyMap<string, T>, kind: StateChange['kind']): T | null => {
      const change = own.find(({kind: which, before, now}) => which === kind && keyOf((before ?? now)?.metadata) === key);
      return change === undefined ? (objects.get(key) ?? null) : (change.before as T | null);
    };
    const object = first(service, this.#services, 'Service');
    const keys = new Set([
      ...[...this.#slices].filter(([, slice]) => isOf(slice, service)).map(([key]) => key),
      ...own.flatMap(({kind, before, now}) => (kind === 'EndpointSlice' ? keyOf((before ?? now)?.metadata) : [])),
    ]);
    const slices = [...keys].map(key => first<EndpointSliceObject>(key, this.#slices, 'EndpointSlice')).filter(slice => slice !== null);
    // That a slice, or the Service, is gone leaves no trace of when.
    if (object === null || slices.length === 0) return null;
    const times = [object, ...slices].map(({metadata}) => changedAt(metadata));
    return Math.max(...times);
  }
}

/** Another text whenever one of these Services, or a slice of it, is another. */
export function printOf(services: readonly ServiceObject[], objects: ServiceObjects): string {
  const prints = printsOf(objects);
  const keys = services.map(({metadata}) => `${metadata.namespace}/${metadata.name}`).sort();
  return JSON.stringify(keys.map(key => [key, prints.get(key)]));
}

/** By `namespace/name`. */
function printsOf({services, endpointSlices, endpoints}: ServiceObjects): ReadonlyMap<string, string> {
  const prints = new Map<string, string>();
  const add = (key: string, {name, resourceVersion}: ObjectMeta): void =>
    void prints.set(key, `${prints.get(key) ?? ''} ${name}:${resourceVersion ?? ''}`);
  for (const {metadata} of services ?? []) add(`${metadata.namespace}/${metadata.name}`, metadata);
  const slices = (endpointSlices ?? []).toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  for (const {metadata} of slices) add(`${metadata.namespace}/${metadata.labels?.['kubernetes.io/service-name']}`, metadata);
  for (const {metadata} of endpoints ?? []) add(`${metadata.namespace}/${metadata.name}`, metadata);
  return prints;
}

/** A change that was written down longer before is no matter of timing. In milliseconds. */
const maxYouth = 60_000;

/** By what the API server and the controllers write down; 0 when they do not. */
function changedAt({creationTimestamp, annotations, managedFields}: ObjectMeta): number {
  const times = [
    creationTimestamp,
    annotations?.['endpoints.kubernetes.io/last-change-trigger-time'],
    ...(managedFields ?? []).map(({time}) => time),
  ];
  return Math.max(0, ...times.map(text => Date.parse(text ?? '')).filter(time => !Number.isNaN(time)));
}

function isOf(slice: EndpointSliceObject, service: string): boolean {
  return ownerOf(slice) === service;
}

function ownerOf(slice: EndpointSliceObject | undefined): string {
  return `${slice?.metadata.namespace ?? 'default'}/${slice?.metadata.labels?.['kubernetes.io/service-name']}`;
}

function byKey<T extends {readonly metadata: ObjectMeta}>(objects: readonly T[] | null): Map<string, T> {
  return new Map((objects ?? []).map(object => [keyOf(object.metadata), object]));
}

function keyOf(metadata: ObjectMeta | undefined): string {
  return `${metadata?.namespace ?? 'default'}/${metadata?.name ?? ''}`;
}

/** Whether each of these objects that was read is known, and no known one is gone that is older than what was read. */
function hasAll<T extends {readonly metadata: ObjectMeta}>(
  known: ReadonlyMap<string, T>,
  objects: readonly T[] | null,
  isOwn: (object: T) => boolean,
): boolean {
  const read = byKey((objects ?? []).filter(isOwn));
  return (
    [...read].every(([key, object]) => reaches(known.get(key) ?? null, object)) &&
    missingIn(read, new Map([...known].filter(([, object]) => isOwn(object)))).length === 0
  );
}

/** The known objects that were not read, but for those that are newer than all that was. */
function missingIn<T extends {readonly metadata: ObjectMeta}>(
  read: ReadonlyMap<string, T>,
  known: ReadonlyMap<string, T>,
): readonly string[] {
  let newest: T | null = null;
  for (const object of read.values()) if (newest === null || isOlder(newest, object)) newest = object;
  return [...known].filter(([key, object]) => !read.has(key) && (newest === null || !isOlder(newest, object))).map(([key]) => key);
}

function put<T>(map: Map<string, T>, key: string, object: T | null): void {
  if (object === null) map.delete(key);
  else map.set(key, object);
}

type Versioned = {readonly metadata: ObjectMeta} | null;

function isSameVersion(one: Versioned, other: Versioned): boolean {
  if (one === null || other === null) return one === other;
  return one === other || (one.metadata.resourceVersion !== undefined && one.metadata.resourceVersion === other.metadata.resourceVersion);
}

function reaches(known: Versioned, seen: Versioned): boolean {
  return known !== null && (isSameVersion(known, seen) || isOlder(seen, known));
}

/** resourceVersions of one kind grow (KEP-5504). */
function isOlder(one: Versioned, other: Versioned): boolean {
  const [version, known] = [one?.metadata.resourceVersion ?? '', other?.metadata.resourceVersion ?? ''];
  return /^\d+$/.test(version) && /^\d+$/.test(known) && BigInt(version) < BigInt(known);
}
