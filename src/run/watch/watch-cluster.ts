import {Errors} from '@oclif/core';
import {ClusterReader} from '../../collect/cluster/cluster-reader.ts';
import {readServices} from '../../collect/cluster/read-cluster.ts';
import {ApiError} from '../../collect/kube/kube-api.ts';
import type {Report} from '../../model/report.ts';
import {Interrupted} from '../clock.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {diagnoseCluster} from '../diagnose-cluster.ts';
import {isThere, askedInput, askedScope} from '../scope/requested-scope.ts';
import {printOf} from '../service-history.ts';
import {shapes} from '../../collect/objects/api-shapes.ts';
import {ObjectWatch, type ObjectWatchOptions, type WatchedChange, StringPool} from '../../collect/watch/object-watch.ts';
import {maxWatchedPlaces, servicesPath, watchedPlaces} from '../../collect/watch/service-watches.ts';
import {whyNotServed} from '../../expect/cluster/cluster-view.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import {newestProxy} from '../../model/proxy-config.ts';

interface Watching {
  readonly run: ClusterRun;
  /** Everything is checked again after this time, in milliseconds, even if nothing changed. */
  readonly interval: number;
  /** Shows the report of a check that ended at this time (milliseconds since 1970), and the Services that were there only in between. */
  readonly show: (report: Report, at: number, passed: readonly PassingService[]) => void;
  /** Shows why a check failed; it will be repeated. */
  readonly trouble: (message: string) => void;
}

/**
 * Checks the cluster whenever a requested Service or its slices change, and at an interval otherwise. Never resolves: rejects with an
 * Interrupted when the signal is aborted, and like diagnoseCluster if the first check fails.
 */
export async function watchCluster(watching: Watching): Promise<never> {
  const passing = new PassingServices(watching.run);
  const end = new AbortController();
  const following = passing.follow(AbortSignal.any([watching.run.signal, end.signal]));
  try {
    return await checkRepeatedly(watching, passing);
  } finally {
    end.abort();
    await following;
  }
}

async function checkRepeatedly(watching: Watching, passing: PassingServices): Promise<never> {
  const {run, show, trouble} = watching;
  const {signal, clock} = run;
  for (let isFirst = true; ; isFirst = false) {
    const began = clock.now();
    const print = await unlessAborted(pollServices(run), signal);
    const result = await tryToCheck(run);
    signal.throwIfAborted();
    if (result.kind === 'report') show(result.report, clock.now(), passing.take());
    else if (isFirst) throw result.error;
    else trouble(result.error.message);
    await untilChanged(watching, print, passing, clock.now() - began);
  }
}

type Look = {readonly kind: 'report'; readonly report: Report} | {readonly kind: 'failure'; readonly error: Error};

/** A check that cannot read the cluster may succeed later; any other error is a bug. */
function tryToCheck(run: ClusterRun): Promise<Look> {
  return diagnoseCluster(run).then(
    report => ({kind: 'report', report}) as const,
    (error: unknown) => {
      if (error instanceof Interrupted || !(error instanceof ApiError || error instanceof Errors.CLIError)) throw error;
      return {kind: 'failure', error} as const;
    },
  );
}

/**
 * Polls every few seconds, and pauses for as long as a check took (`took`, in milliseconds). `print`: of the Services and slices when it
 * began; null if they could not be read. A Service that is gone can have left rules behind.
 */
async function untilChanged({run, interval}: Watching, print: string | null, passing: PassingServices, took: number): Promise<void> {
  const {clock, signal, progress} = run;
  const due = clock.now() + Math.max(interval, took);
  const pace = Math.max(Math.min(pollEvery, interval), Math.min(took, interval));
  while (clock.now() < due) {
    progress.say('');
    await unlessAborted(clock.sleep(Math.min(pace, due - clock.now()), signal), signal);
    if (passing.isAny) return;
    const now = await unlessAborted(pollServices(run), signal);
    if (now !== null && now !== print) return;
  }
}

/** In milliseconds. */
const pollEvery = 5000;

/**
 * A text that changes whenever a Service or slice of the requested scope changes; null if they cannot be read. Reads the lists again: this
 * needs no more permissions than a check, while a watch of the API server does.
 */
async function pollServices(run: ClusterRun): Promise<string | null> {
  const objects = await readServices(askedScope(askedInput(run)), new ClusterReader(run.cluster.api, {anyFailure: true}));
  return isThere(objects) ? printOf(objects.services ?? [], objects) : null;
}

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
class PassingServices {
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
        shape: shapes.services,
        strings,
        query,
        // What the first list shows was there before.
        onChange: change => (watch.isListed ? this.#note(change) : undefined),
        onFailure: error => (error instanceof ApiError && error.status === 403 ? refused.abort() : undefined),
      };
      const watch: ObjectWatch<ServiceObject> = new ObjectWatch(cluster.api, options);
      return watch;
    });
    await Promise.all(watches.map(watch => watch.run(either)));
  }

  #note({key: service, object, before}: WatchedChange<ServiceObject>): void {
    const {clock} = this.#run;
    if (before === undefined) this.#createdAt.set(service, clock.now());
    if (object !== null || before === undefined) return;
    const createdAt = this.#createdAt.get(service);
    this.#createdAt.delete(service);
    if (createdAt === undefined || whyNotServed(before, newestProxy.version) !== null) return;
    this.#passed = [...this.#passed, {service, createdAt, deletedAt: clock.now()}].slice(-maxPassed);
  }
}

/** While a check lasts. */
const maxPassed = 1000;
