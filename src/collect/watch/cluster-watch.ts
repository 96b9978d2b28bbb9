import type {EndpointSliceObject, ObjectMeta, ServiceObject} from '../../model/api-objects.ts';
import type {SeenVersions} from '../../model/node-result.ts';
import type {ApiObjects, Problem} from '../../model/snapshot.ts';
import {endpointSliceShape, serviceShape} from '../objects/api-shapes.ts';
import type {KubeApi} from '../kube/kube-api.ts';
import {ObjectWatch, type ObjectWatchOptions} from './object-watch.ts';
import {StringPool} from './trim-object.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

export type ClusterWatchOptions = Pick<ObjectWatchOptions<never>, 'backoffMs' | 'silenceMs'> & {
  /** Called whenever something has changed. */
  readonly onChange?: () => void;
};

/** All Services and slices of a cluster, kept up to date: one watch for each kind, shared by all that ask. */
export class ClusterWatch {
  readonly services: ObjectWatch<ServiceObject>;
  readonly endpointSlices: ObjectWatch<EndpointSliceObject>;
  readonly #onChange: () => void;
  /** When a Service or one of its slices was last seen to change, by `namespace/name`; of the last minutes only. */
  #changed = new Map<string, number>();
  #changedBefore = new Map<string, number>();
  #turnedAt = Date.now();
  #reopenedAt = 0;
  #lists: Lists | null = null;

  constructor(api: KubeApi, {onChange = () => {}, ...options}: ClusterWatchOptions = {}) {
    this.#onChange = onChange;
    const strings = new StringPool();
    this.services = new ObjectWatch<ServiceObject>(api, {
      ...{...options, strings, kind: 'services', path: '/api/v1/services', shape: serviceShape},
      onChange: (now, before) => this.#noteChange([nameOf(now), nameOf(before)], before !== undefined || this.services.isListed),
    });
    this.endpointSlices = new ObjectWatch<EndpointSliceObject>(api, {
      ...{...options, strings, kind: 'endpointslices', path: '/apis/discovery.k8s.io/v1/endpointslices', shape: endpointSliceShape},
      onChange: (now, before) => this.#noteChange([ownerOf(now), ownerOf(before)], before !== undefined || this.endpointSlices.isListed),
    });
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

  /** When the API server last gave a sign of life, on the watch where that is longer ago. Milliseconds since 1970. */
  get currentAt(): number {
    return Math.min(...this.watches.map(watch => watch.currentAt));
  }

  /** Why it does not work just now; null when it does. */
  get trouble(): string | null {
    return this.watches.map(watch => watch.trouble).find(trouble => trouble !== null) ?? null;
  }

  get problems(): readonly Problem[] {
    return this.watches.flatMap(watch => watch.problems);
  }

  /** Up to where all is known now. */
  get seen(): SeenVersions {
    return {services: this.services.resourceVersion, endpointSlices: this.endpointSlices.resourceVersion};
  }

  /** The same lists for as long as nothing changes, in the order of the API's. */
  objects(): Lists {
    this.#lists ??= {services: sorted(this.services.objects), endpointSlices: sorted(this.endpointSlices.objects), endpoints: null};
    return this.#lists;
  }

  /** When a Service, `namespace/name`, or a slice of it was last seen to change; 0 where that is some minutes ago or more. */
  changedAt(service: string): number {
    return this.#changed.get(service) ?? this.#changedBefore.get(service) ?? 0;
  }

  /** It may have changed without a word of the watch: what was said there is not to be relied on, and the watch begins anew. */
  doubt(service: string): void {
    this.#noteChange([service], true);
    // It takes its time to come back, and is not to be kept from it.
    if (Date.now() - this.#reopenedAt < betweenReopenings) return;
    this.#reopenedAt = Date.now();
    for (const watch of this.watches) watch.reopen();
  }

  #noteChange(services: readonly (string | null)[], isNews: boolean): void {
    const now = Date.now();
    this.#lists = null;
    if (isNews) {
      if (now - this.#turnedAt > remembered) {
        [this.#changedBefore, this.#changed, this.#turnedAt] = [this.#changed, new Map(), now];
      }
      for (const service of services) if (service !== null) this.#changed.set(service, now);
    }
    this.#onChange();
  }
}

export type Lists = Pick<ApiObjects, 'endpoints'> & {
  readonly services: readonly ServiceObject[];
  readonly endpointSlices: readonly EndpointSliceObject[];
};

/** In milliseconds: longer than any doubt about what is young. */
const remembered = 120_000;
const betweenReopenings = 10_000;

function sorted<T>(objects: ReadonlyMap<string, T>): readonly T[] {
  return [...objects].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
}

function nameOf(object: {readonly metadata: ObjectMeta} | undefined): string | null {
  return object === undefined ? null : namespacedName(object.metadata);
}

function ownerOf(slice: EndpointSliceObject | undefined): string | null {
  const service = slice?.metadata.labels?.['kubernetes.io/service-name'];
  return service === undefined ? null : `${slice?.metadata.namespace}/${service}`;
}
