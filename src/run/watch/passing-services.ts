import {ApiError} from '../../collect/kube/kube-api.ts';
import {serviceShape} from '../../collect/objects/api-shapes.ts';
import {ObjectWatch, type ObjectWatchOptions} from '../../collect/watch/object-watch.ts';
import {maxWatchedPlaces, servicesPath, watchedPlaces} from '../../collect/watch/service-watches.ts';
import {StringPool} from '../../collect/watch/trim-object.ts';
import {whyNotServed} from '../../expect/cluster/service-ports.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import {newestProxy} from '../../model/proxy-config.ts';
import {namespacedName} from '../../model/text.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {askedInput, askedScope} from '../scope/requested-scope.ts';

/** A Service that existed for a time. Milliseconds since 1970. */
export interface PassingService {
  /** `namespace/name`. */
  readonly service: string;
  readonly createdAt: number;
  readonly deletedAt: number;
}

/**
 * Services of the requested scope that are created and deleted while `watch` runs, by a watch of the API server: checks see only those that
 * exist when they read the API. Without permission to watch, none are known.
 */
export class PassingServices {
  readonly #run: ClusterRun;
  readonly #places: ReturnType<typeof watchedPlaces>;
  readonly #createdAt = new Map<string, number>();
  #passed: PassingService[] = [];

  /** Throws a CLIError (exit 2) for names together with a selector. */
  constructor(run: ClusterRun) {
    this.#run = run;
    this.#places = watchedPlaces(askedScope(askedInput(run)));
  }

  /** Whether there are some that were not taken. */
  get isAny(): boolean {
    return this.#passed.length > 0;
  }

  /** Those that are gone since the last call. */
  take(): readonly PassingService[] {
    const passed = this.#passed;
    this.#passed = [];
    return passed;
  }

  /** Resolves when the signal is aborted, or a watch is refused. */
  async follow(signal: AbortSignal): Promise<void> {
    const {cluster, flags} = this.#run;
    if (this.#places.length > maxWatchedPlaces) return;
    const refused = new AbortController();
    const either = AbortSignal.any([signal, refused.signal]);
    const strings = new StringPool();
    const watches = this.#places.map(place => {
      const query = {...place.services, ...(flags.selector === undefined ? {} : {labelSelector: flags.selector})};
      const options: ObjectWatchOptions<ServiceObject> = {
        kind: 'services',
        path: servicesPath(place),
        shape: serviceShape,
        strings,
        query,
        // What the first list shows was there before.
        onChange: (now, before) => (watch.isListed ? this.#note(now, before) : undefined),
        onFailure: error => (error instanceof ApiError && error.status === 403 ? refused.abort() : undefined),
      };
      const watch: ObjectWatch<ServiceObject> = new ObjectWatch(cluster.api, options);
      return watch;
    });
    await Promise.all(watches.map(watch => watch.run(either)));
  }

  #note(now: ServiceObject | undefined, before: ServiceObject | undefined): void {
    const {clock} = this.#run;
    const object = now ?? before;
    if (object === undefined) return;
    const service = namespacedName(object.metadata);
    if (now !== undefined && before === undefined) this.#createdAt.set(service, clock.now());
    if (now !== undefined) return;
    const createdAt = this.#createdAt.get(service);
    this.#createdAt.delete(service);
    if (createdAt === undefined || whyNotServed(object, newestProxy.version) !== null) return;
    this.#passed = [...this.#passed, {service, createdAt, deletedAt: clock.now()}].slice(-maxPassed);
  }
}

/** While a check lasts. */
const maxPassed = 1000;
