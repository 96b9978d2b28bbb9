import {setTimeout as sleep} from 'node:timers/promises';
import type {ObjectMeta} from '../../model/api-objects.ts';
import type {Problem} from '../../model/snapshot.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import {maxSilence} from '../kube/send-request.ts';
import {type Shape, usableItems} from '../objects/api-shapes.ts';
import {type PastEvents, paced, readList, watchEvents} from './past-events.ts';
import {errorText, namespacedName} from '../../model/text.ts';
import {ofKubernetes} from '../../expect/cluster/service-states.ts';

interface Watched {
  readonly metadata: ObjectMeta;
}

/** An object that was added, changed or deleted; null then. */
export interface WatchedChange<T> {
  /** `namespace/name`. */
  readonly key: string;
  readonly object: T | null;
  readonly before: T | undefined;
  /** Found by reading the list again: there may have been other changes before. */
  readonly isListed: boolean;
}

export interface ObjectWatchOptions<T extends Watched> {
  /** The plural, for messages and metrics. */
  readonly kind: string;
  /** The path of the list, such as `/api/v1/services`. */
  readonly path: string;
  readonly shape: Shape;
  readonly strings: StringPool;
  /** Restricts the list, such as a `fieldSelector`; left out for all objects. */
  readonly query?: Readonly<Record<string, string>>;
  /** Objects that were read before. With their resourceVersion no list is needed. */
  readonly start?: {
    readonly objects: readonly T[];
    readonly resourceVersion?: string | undefined;
    /** Takes what happened before these objects were read: the first watch begins earlier. */
    readonly past?: PastEvents<T> | undefined;
  };
  readonly onChange: (change: WatchedChange<T>) => void;
  /** Called when a list or a watch fails; it is retried. */
  readonly onFailure?: (error: unknown) => void;
  /** The pause after the first failure, in milliseconds; it doubles up to half a minute. */
  readonly backoffMs?: number | undefined;
  /** How long a watch may be silent, in milliseconds: bookmarks arrive about once a minute. */
  readonly silenceMs?: number | undefined;
}

/** Why a watch was restarted: as scheduled, because it broke, or because the API server no longer has the next changes (410). */
type RestartReason = 'ended' | 'broken' | 'expired';

/**
 * All objects of a kind, kept up to date by a list and a watch, like client-go's Reflector: from the API server's watch cache, resumed
 * after a break, listed again only if the API server no longer has the next changes (410).
 */
export class ObjectWatch<T extends Watched> {
  readonly kind: string;
  readonly restarts: Record<RestartReason, number> = {ended: 0, broken: 0, expired: 0};
  /** How often the list was read. */
  lists = 0;
  /** All changes up to this resourceVersion are known; empty before the first list. */
  resourceVersion = '';
  /** When the API server last sent something on the watch, in milliseconds since 1970; 0 for never. */
  currentAt = 0;
  /** Why it does not work at the moment, as text. */
  trouble: string | null = null;
  #objects = new Map<string, T>();
  #malformed = new Map<string, Problem>();
  #mustList = true;
  /** The latest attempt succeeded. */
  #worked = false;
  #current = new AbortController();
  /** The minimum version of the next list: any at first, then none older than what is known. */
  #listFrom = '0';
  readonly #past: PastEvents<T> | undefined;
  readonly #api: KubeApi;
  readonly #options: ObjectWatchOptions<T>;

  constructor(api: KubeApi, options: ObjectWatchOptions<T>) {
    this.kind = options.kind;
    this.#api = api;
    this.#options = options;
    const {objects, resourceVersion, past} = options.start ?? {};
    this.#past = past;
    if (objects === undefined) return;
    this.#objects = new Map(objects.map(object => [objectKey(object), object]));
    // Objects that were read before must not be followed by older ones.
    this.#listFrom = resourceVersion ?? '';
    if (resourceVersion === undefined) return;
    this.resourceVersion = resourceVersion;
    this.#mustList = false;
  }

  get isListed(): boolean {
    return this.lists > 0;
  }

  /** By `namespace/name`. */
  get objects(): ReadonlyMap<string, T> {
    return this.#objects;
  }

  /** Unusable objects. */
  get problems(): readonly Problem[] {
    return [...this.#malformed.values()];
  }

  /** Resolves when the signal is aborted, and not before. */
  async run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      this.#worked = false;
      const reason = await this.#once(signal);
      if (signal.aborted) return;
      failures = reason === 'ended' ? 0 : this.#worked ? 1 : failures + 1;
      if (this.isListed) this.restarts[reason]++;
      if (failures > 0) await sleep(this.#pause(failures), undefined, {signal}).catch(() => {});
    }
  }

  /** Ends the watch, which is then resumed: for one that seems to withhold changes. */
  reopen(): void {
    this.#current.abort(new Error('the watch is restarted'));
  }

  /** One watch, preceded by a list if needed. */
  async #once(signal: AbortSignal): Promise<RestartReason> {
    this.#current = new AbortController();
    const either = AbortSignal.any([signal, this.#current.signal]);
    try {
      if (this.#mustList && !this.#past?.isTaking) await this.#list(either);
      await this.#watch(either);
      return 'ended';
    } catch (error) {
      const isExpired = error instanceof ApiError && error.status === 410;
      if (isExpired && this.#past?.isTaking) {
        this.#past.refuse();
        return await this.#once(signal);
      }
      this.trouble = errorText(error);
      if (!signal.aborted) this.#options.onFailure?.(error);
      if (!(error instanceof ApiError && (error.status === 410 || error.status === 504))) return 'broken';
      // This API server may be behind the one used before: then etcd must be read.
      this.#listFrom = this.#mustList ? '' : this.resourceVersion;
      this.#mustList ||= isExpired;
      return isExpired ? 'expired' : 'broken';
    } finally {
      this.#past?.lose();
    }
  }

  #pause(failures: number): number {
    const {backoffMs = 1000} = this.#options;
    return Math.min(backoffMs * 2 ** (failures - 1), maxPause) * (0.5 + Math.random());
  }

  async #list(signal: AbortSignal): Promise<void> {
    const {path} = this.#options;
    const query = {...this.#options.query, ...(this.#listFrom === '' ? {} : {resourceVersion: this.#listFrom})};
    const found = new Map<string, T>();
    this.#malformed.clear();
    const parts = await this.#api.stream(path, query, {signal, silenceMs: maxSilence});
    const metadata = await readList(parts, item => {
      const object = this.#usable(item);
      if (object !== null) found.set(objectKey(object), object);
    });
    if (metadata.continue) throw new ApiError(`the list of ${this.kind} is truncated: the request had no limit`, {status: null});
    const before = this.#objects;
    this.#objects = found;
    this.resourceVersion = metadata.resourceVersion ?? '';
    this.#listFrom = this.resourceVersion;
    this.#mustList = false;
    this.#isWell();
    for (const [key, object] of found)
      if (object !== before.get(key)) this.#options.onChange({key, object, before: before.get(key), isListed: true});
    for (const [key, one] of before) if (!found.has(key)) this.#options.onChange({key, object: null, before: one, isListed: true});
    this.lists++;
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const {path, silenceMs = 150_000} = this.#options;
    const seconds = 300 + Math.floor(Math.random() * 300);
    const query = {
      ...this.#options.query,
      watch: '1',
      allowWatchBookmarks: 'true',
      resourceVersion: (this.#past?.isTaking ? this.#past.from?.version : null) ?? this.resourceVersion,
      timeoutSeconds: String(seconds),
    };
    const begun = Date.now();
    let events = 0;
    const parts = await this.#api.stream(path, query, {signal, silenceMs});
    this.#isWell();
    this.#past?.opened();
    for await (const {type, object} of watchEvents(paced(parts, signal))) {
      events++;
      if (type === 'ERROR') throw asError(object, this.kind);
      if (!this.#past?.take({type, object})) this.#take(type, object as T);
      this.#isWell();
    }
    if (events === 0 && Date.now() - begun < 1000) throw new Error(`the watch of ${this.kind} ended as soon as it had begun`);
  }

  #take(type: string, object: T): void {
    const {resourceVersion} = object.metadata;
    if (type !== 'BOOKMARK') this.#change(type, object);
    if (resourceVersion !== undefined) this.resourceVersion = resourceVersion;
  }

  #change(type: string, object: T): void {
    const key = objectKey(object);
    const before = this.#objects.get(key);
    const now = type === 'DELETED' ? null : this.#usable(object);
    if (type === 'DELETED') this.#malformed.delete(key);
    if (now === null) this.#objects.delete(key);
    else this.#objects.set(key, now);
    if (now !== null || before !== undefined) this.#options.onChange({key, object: now, before, isListed: false});
  }

  /** Null for an object of another shape, which is recorded. Returns the known object if it is equal. */
  #usable(item: unknown): T | null {
    const {shape, strings} = this.#options;
    const {items, problems} = usableItems<T>(this.#options.path, [item], shape);
    const [object] = items;
    const key = objectKey(object ?? (item as T));
    const [problem] = problems;
    if (object === undefined) {
      if (problem !== undefined) this.#malformed.set(key, {...problem, remedy: 'Correct the object. All others were checked.'});
      return null;
    }
    this.#malformed.delete(key);
    const known = this.#objects.get(key);
    const version = object.metadata.resourceVersion;
    if (known !== undefined && version !== undefined && known.metadata.resourceVersion === version) return known;
    return trimObject(object, shape, strings);
  }

  #isWell(): void {
    this.currentAt = Date.now();
    this.trouble = null;
    this.#worked = true;
  }
}

const maxPause = 30_000;

function objectKey(object: Partial<Watched> | null): string {
  return namespacedName({name: '', ...object?.metadata});
}

/** The error in an ERROR event: a Status. */
function asError(object: unknown, kind: string): ApiError {
  const {code, message, reason} = (object ?? {}) as {readonly code?: number; readonly message?: string; readonly reason?: string};
  const status = code ?? (reason === 'Expired' || reason === 'Gone' ? 410 : null);
  return new ApiError(`the watch of ${kind} ended: ${message ?? 'no reason given'}`, {status, reason});
}

/**
 * A Service or a slice with only the fields that are used, because it is kept as long as the process lives. Of managedFields, which can be
 * most of an object, the newest time is kept, and of labels and annotations those of Kubernetes.
 */
function trimObject<T extends {readonly metadata: ObjectMeta}>(object: T, shape: Shape, strings: StringPool): T {
  const trimmed = pick(object, shape, strings) as T;
  const {managedFields, labels, annotations, ...metadata} = trimmed.metadata;
  const newest = (managedFields ?? [])
    .flatMap(({time}) => time ?? [])
    .sort()
    .at(-1);
  const kept: ObjectMeta = {
    ...metadata,
    ...(labels === undefined ? {} : {labels: ofKubernetes(labels)}),
    ...(annotations === undefined ? {} : {annotations: ofKubernetes(annotations)}),
    ...(newest === undefined ? {} : {managedFields: [{time: newest}]}),
  };
  return {...trimmed, metadata: kept};
}

/** Returns one string for all equal ones: the name of a node occurs in many endpoints. */
export class StringPool {
  #strings = new Map<string, string>();

  same(text: string): string {
    const known = this.#strings.get(text);
    if (known !== undefined) return known;
    // Names change over time; a string that was removed is only stored twice.
    if (this.#strings.size >= maxStrings) this.#strings = new Map();
    this.#strings.set(text, text);
    return text;
  }
}

const maxStrings = 20_000;

function pick(value: unknown, shape: Shape, strings: StringPool): unknown {
  if (typeof value !== 'object' || value === null || typeof shape === 'string') return value;
  const {'[]': ofItems, '*': ofValues} = shape;
  if (ofItems !== undefined) return Array.isArray(value) ? value.map(item => pick(item, ofItems, strings)) : value;
  if (ofValues !== undefined) return value;
  const object = value as Readonly<Record<string, unknown>>;
  const picked: Record<string, unknown> = {};
  for (const name in shape) {
    const [field, inner] = [object[name], shape[name]];
    if (field === undefined || inner === undefined) continue;
    picked[name] = typeof field === 'string' && shared.has(name) ? strings.same(field) : pick(field, inner, strings);
  }
  return picked;
}

/** Fields with equal values in many objects. */
const shared = new Set(['nodeName', 'zone', 'namespace', 'kind', 'protocol', 'addressType']);
