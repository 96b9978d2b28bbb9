import {randomUUID} from 'node:crypto';
import {type Resource, resources, type ResourceRequest} from './resources.ts';
import {isSelected} from './selectors.ts';
import {type Answer, failure, notFound} from './status.ts';

export interface StoredObject {
  metadata: {
    name: string;
    namespace?: string;
    uid?: string;
    resourceVersion?: string;
    generateName?: string;
    creationTimestamp?: string;
    deletionTimestamp?: string;
    deletionGracePeriodSeconds?: number;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
  [field: string]: unknown;
}

/** Lists by plural, such as `{services: […], endpointslices: […]}`; items as `kubectl get -o json` prints them. */
export type ObjectLists = Readonly<Record<string, readonly object[]>>;

/** Something that happened to an object. */
export interface StoreEvent {
  readonly revision: number;
  readonly plural: string;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: StoredObject;
}

/** The objects of the stand-in, each under `plural/namespace/name`. */
export class ObjectStore {
  readonly #objects = new Map<string, StoredObject>();
  #revision = 1000;
  #events: StoreEvent[] = [];
  /** The objects before these events. */
  #base = new Map<string, StoredObject>();
  /** What happened up to here is forgotten. */
  #forgotten = 0;
  readonly #listeners = new Set<(event: StoreEvent) => void>();

  constructor(lists: ObjectLists) {
    for (const [plural, items] of Object.entries(lists)) for (const item of items) this.put(plural, structuredClone(item) as StoredObject);
  }

  all(plural: string): StoredObject[] {
    return [...this.#objects].filter(([key]) => key.startsWith(`${plural}/`)).map(([, object]) => object);
  }

  find(plural: string, namespace: string, name: string): StoredObject | undefined {
    return this.#objects.get(`${plural}/${namespace}/${name}`);
  }

  /** Adds an object or puts it in the place of the one that has its name. */
  put(plural: string, object: StoredObject): StoredObject {
    this.#revision++;
    object.metadata.resourceVersion = String(this.#revision);
    object.metadata.uid ??= randomUUID();
    const key = `${plural}/${object.metadata.namespace ?? ''}/${object.metadata.name}`;
    const type = this.#objects.has(key) ? 'MODIFIED' : 'ADDED';
    this.#objects.set(key, object);
    this.#tell({revision: this.#revision, plural, type, object: structuredClone(object)});
    return object;
  }

  /** A DELETED event bears the revision of the deletion. */
  remove(plural: string, namespace: string, name: string): void {
    this.#revision++;
    const key = `${plural}/${namespace}/${name}`;
    const object = this.#objects.get(key);
    if (object === undefined || !this.#objects.delete(key)) return;
    const last = {...structuredClone(object), metadata: {...object.metadata, resourceVersion: String(this.#revision)}};
    this.#tell({revision: this.#revision, plural, type: 'DELETED', object: last});
  }

  get revision(): number {
    return this.#revision;
  }

  /** Calls back with what has happened since, and with all that happens from now on; null where that is forgotten. */
  follow(since: number, listen: (event: StoreEvent) => void): {stop(): void} | null {
    if (since < this.#forgotten) return null;
    for (const event of this.#events.filter(({revision}) => revision > since)) listen(event);
    this.#listeners.add(listen);
    return {stop: () => void this.#listeners.delete(listen)};
  }

  /** Compacts the history, as etcd does: no watch can resume from an earlier version. */
  forget(): void {
    this.#forgotten = ++this.#revision;
    this.#base = new Map(structuredClone([...this.#objects]));
    this.#events = [];
  }

  /** As they were at an earlier revision. */
  #allAt(plural: string, revision: number): StoredObject[] {
    const objects = new Map([...this.#base].filter(([key]) => key.startsWith(`${plural}/`)));
    for (const {type, object, ...event} of this.#events) {
      if (event.plural !== plural || event.revision > revision) continue;
      const key = `${plural}/${object.metadata.namespace ?? ''}/${object.metadata.name}`;
      if (type === 'DELETED') objects.delete(key);
      else objects.set(key, object);
    }
    return [...objects.values()];
  }

  #tell(event: StoreEvent): void {
    this.#events.push(event);
    for (const listen of this.#listeners) listen(event);
  }

  get(request: ResourceRequest): Answer {
    const object = this.find(request.resource, request.namespace, request.name);
    return object === undefined ? notFound(request) : {status: 200, body: typed(request, object)};
  }

  /** A page of a list, sorted by namespace and name. The token says where the next page starts and of which revision the list is. */
  list(request: ResourceRequest, query: URLSearchParams): Answer {
    const resource = resourceOf(request);
    if (resource === undefined) return failure(404, 'the server could not find the requested resource');
    const token = tokenIn(query.get('continue'));
    if (token === null) return failure(400, 'continue key is not valid');
    const exact = query.get('resourceVersionMatch') === 'Exact' ? Number(query.get('resourceVersion')) : null;
    if (exact !== null && exact < this.#forgotten) return failure(410, `The resourceVersion for the provided list is too old.`);
    const selected = (exact === null ? this.all(request.resource) : this.#allAt(request.resource, exact))
      .filter(({metadata}) => request.namespace === '' || metadata.namespace === request.namespace)
      .filter(object => isSelected(object, query))
      .map(object => ({key: keyOf(object), object}))
      .sort((a, b) => (a.key < b.key ? -1 : 1))
      .filter(({key}) => key > token.start);
    // The watch cache answers with the whole list.
    const limit = query.get('resourceVersion') === '0' ? selected.length : Number(query.get('limit') ?? 0) || selected.length;
    const page = selected.slice(0, limit);
    const rest = selected.length - page.length;
    const revision = token.revision ?? exact ?? this.#revision;
    const metadata = {
      resourceVersion: String(revision),
      ...(rest > 0
        ? {continue: tokenFor(revision, page.at(-1)?.key ?? ''), ...(isSelection(query) ? {} : {remainingItemCount: rest})}
        : {}),
    };
    const body = {kind: `${resource.kind}List`, apiVersion: apiVersionOf(request), metadata, items: page.map(({object}) => object)};
    return {status: 200, body};
  }

  /** 410, with a token to go on with all the same. */
  expired(query: URLSearchParams): Answer {
    const {start} = tokenIn(query.get('continue')) ?? {start: ''};
    return failure(
      410,
      'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.',
      {metadata: {continue: tokenFor(-1, start)}},
    );
  }
}

/** An object on its own names its kind; in a list it does not. */
export function typed(request: ResourceRequest, object: object): object {
  return {kind: resourceOf(request)?.kind, apiVersion: apiVersionOf(request), ...object};
}

/** With a selector the API server does not know how many are left. */
function isSelection(query: URLSearchParams): boolean {
  return query.has('labelSelector') || query.has('fieldSelector');
}

function resourceOf({resource, group}: ResourceRequest): Resource | undefined {
  return resources.find(known => known.plural === resource && known.group === group);
}

function apiVersionOf({group}: ResourceRequest): string {
  return group === '' ? 'v1' : `${group}/v1`;
}

function keyOf({metadata}: StoredObject): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

function tokenFor(revision: number, start: string): string {
  return Buffer.from(JSON.stringify({v: 'meta.k8s.io/v1', rv: revision, start})).toString('base64url');
}

function tokenIn(text: string | null): {readonly revision: number | null; readonly start: string} | null {
  if (!text) return {revision: null, start: ''};
  try {
    const {rv, start} = JSON.parse(Buffer.from(text, 'base64url').toString('utf8')) as {rv: number; start: string};
    return {revision: rv > 0 ? rv : null, start};
  } catch {
    return null;
  }
}
