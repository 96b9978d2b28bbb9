import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import type {SeenVersions} from '../../model/node-result.ts';
import type {ApiObjects, Problem} from '../../model/snapshot.ts';
import type {KubeApi} from '../kube/kube-api.ts';
import {type ObjectWatch, type ObjectWatchOptions, StringPool} from './object-watch.ts';
import {watchPair, type WatchedObject} from './service-watches.ts';

type ClusterWatchOptions = Pick<ObjectWatchOptions<never>, 'backoffMs' | 'silenceMs'> & {
  /** Called whenever something has changed. */
  readonly onChange?: () => void;
};

/** Called with each object that was added, changed or deleted. */
type SeenListener = (seen: WatchedObject) => void;

/** All Services and slices of a cluster, kept up to date: one watch for each kind, shared by all that ask. */
export class ClusterWatch {
  readonly services: ObjectWatch<ServiceObject>;
  readonly endpointSlices: ObjectWatch<EndpointSliceObject>;
  readonly #onChange: () => void;
  #reopenedAt = 0;
  #onSeen: SeenListener = () => {};
  #lists: Lists | null = null;

  constructor(api: KubeApi, {onChange = () => {}, ...options}: ClusterWatchOptions = {}) {
    this.#onChange = onChange;
    const paths = {services: {path: '/api/v1/services'}, slices: {path: '/apis/discovery.k8s.io/v1/endpointslices'}};
    const pair = watchPair(api, {...options, ...paths, strings: new StringPool()}, seen => this.#noteChange(seen));
    this.services = pair.services;
    this.endpointSlices = pair.endpointSlices;
  }

  /** Called for every object that changes. */
  set onSeen(listener: SeenListener) {
    this.#onSeen = listener;
  }

  get watches(): readonly (ObjectWatch<ServiceObject> | ObjectWatch<EndpointSliceObject>)[] {
    return [this.services, this.endpointSlices];
  }

  /** Resolves when the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(this.watches.map(watch => watch.run(signal)));
  }

  get isListed(): boolean {
    return this.watches.every(watch => watch.isListed);
  }

  /** When the API server last sent something, on the watch that has been silent for longer. Milliseconds since 1970. */
  get currentAt(): number {
    return Math.min(...this.watches.map(watch => watch.currentAt));
  }

  /** Why it does not work at the moment; null if it works. */
  get trouble(): string | null {
    return this.watches.map(watch => watch.trouble).find(trouble => trouble !== null) ?? null;
  }

  get problems(): readonly Problem[] {
    return this.watches.flatMap(watch => watch.problems);
  }

  /** The versions up to which all changes are known. */
  get seen(): SeenVersions {
    return {services: this.services.resourceVersion, endpointSlices: this.endpointSlices.resourceVersion};
  }

  /** The same lists as long as nothing changes, in the API's order. */
  objects(): Lists {
    this.#lists ??= {services: sorted(this.services.objects), endpointSlices: sorted(this.endpointSlices.objects), endpoints: null};
    return this.#lists;
  }

  /** A change may have been missed: restarts the watches. */
  doubt(): void {
    // A watch takes time to restart, and must not be interrupted meanwhile.
    if (Date.now() - this.#reopenedAt < betweenReopenings) return;
    this.#reopenedAt = Date.now();
    for (const watch of this.watches) watch.reopen();
  }

  #noteChange(seen: WatchedObject): void {
    this.#lists = null;
    this.#onSeen(seen);
    this.#onChange();
  }
}

type Lists = Pick<ApiObjects, 'endpoints'> & {
  readonly services: readonly ServiceObject[];
  readonly endpointSlices: readonly EndpointSliceObject[];
};

/** In milliseconds. */
const betweenReopenings = 10_000;

function sorted<T>(objects: ReadonlyMap<string, T>): readonly T[] {
  return [...objects].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
}
