import {gracePeriod} from '../checks/st904-changed-while-looking.ts';
import {ClusterReader} from '../collect/cluster/cluster-reader.ts';
import type {ClusterScope} from '../collect/cluster/cluster-scope.ts';
import {readServices, type ServiceObjects} from '../collect/cluster/read-cluster.ts';
import type {ApiError, KubeApi} from '../collect/kube/kube-api.ts';
import {maxWatchedPlaces, type PastOfServices, watchServices} from '../collect/watch/service-watches.ts';
import type {ApiObjects, Problem} from '../model/snapshot.ts';
import type {Clock} from './clock.ts';
import {earlierVersions, recallStates} from './recall-states.ts';
import {ServiceHistory} from './service-history.ts';

interface FollowInput {
  readonly api: KubeApi;
  readonly scope: ClusterScope;
  /** The objects read so far, and the resourceVersions of their lists by path. */
  readonly objects: ApiObjects;
  readonly versions: ReadonlyMap<string, string>;
  readonly clock: Clock;
}

/** Follows Services and their slices while nodes are read: by watches, or by polling if watches are not allowed. */
export class FollowedServices {
  readonly history: ServiceHistory;
  readonly #input: FollowInput;
  readonly #end = new AbortController();
  #problem: Problem | null = null;
  #isPolled = false;
  /** When a watch last delivered an event: changes that a list shows after that were missed. */
  #heardAt: number;
  readonly #listedAt: number;
  /** What the watches tell of the time before the lists; null where that is not known, or is known to the history. */
  #past: readonly PastOfServices[] | null = null;

  constructor(input: FollowInput) {
    this.#input = input;
    this.#listedAt = input.clock.now();
    this.#heardAt = this.#listedAt;
    this.history = new ServiceHistory(input.objects, this.#listedAt, input.api.clockAheadMs);
    const {services, endpointSlices} = input.objects;
    if (services !== null && endpointSlices !== null) this.#follow();
  }

  /** Reports that Services could not be watched. */
  get problems(): readonly Problem[] {
    return this.#problem === null ? [] : [this.#problem];
  }

  /**
   * Adds the objects just read from the API to the history. Gives the watches time to deliver the same changes in their own order first.
   */
  async take(objects: ApiObjects): Promise<void> {
    if (!this.#isPolled) await this.#untilHeardOf(objects);
    this.history.update(objects, this.#input.clock.now());
  }

  /**
   * Adds the states from this time on, which is before the first list, to the history; once. Where the API server does not know them any
   * more, or may not be asked, they stay unknown.
   */
  async recall(since: number): Promise<void> {
    const past = this.#past;
    this.#past = null;
    if (past === null || this.#isPolled) return;
    const {api} = this.#input;
    const states = await recallStates({api, past, listedAt: this.#listedAt, signal: this.#end.signal}, since);
    if (states !== null) this.history.recall(states);
  }

  close(): void {
    this.#end.abort(new Error('the run is over'));
  }

  #follow(): void {
    const {api, scope, objects, versions, clock} = this.#input;
    if (countPlaces(scope) > maxWatchedPlaces) {
      void this.#poll(null);
      return;
    }
    const listed = {objects, versions, listedAt: this.#listedAt, clockAheadMs: api.clockAheadMs};
    const {past, ended} = watchServices(
      api,
      {
        ...{scope, objects, versions, from: earlierVersions(listed, this.#listedAt - gracePeriod * 1000)},
        onChange: ({isListed, ...seen}) => {
          const now = clock.now();
          this.history.note(seen, now, isListed ? this.#heardAt : undefined);
          if (!isListed) this.#heardAt = now;
        },
        onRefused: error => void this.#poll(error),
      },
      this.#end.signal,
    );
    this.#past = past;
    void ended;
  }

  /** A watch that is further behind a list than this is broken. */
  async #untilHeardOf(objects: ServiceObjects): Promise<void> {
    for (let waited = 0; waited < maxWatchDelay && !this.history.has(objects) && !this.#isPolled; waited += step) await pause(step);
  }

  async #poll(refusal: ApiError | null): Promise<void> {
    this.#isPolled = true;
    if (refusal !== null) this.#problem = notWatched(refusal);
    const {api, scope, clock} = this.#input;
    while (!this.#end.signal.aborted) {
      await pause(betweenPolls, this.#end.signal);
      if (this.#end.signal.aborted) return;
      const read = await readServices(scope, new ClusterReader(api, {anyFailure: true})).catch(() => null);
      if (read?.services && read.endpointSlices && !this.#end.signal.aborted) this.history.update({...this.#part, ...read}, clock.now());
    }
  }

  get #part(): Pick<ApiObjects, 'namespaces'> {
    const {namespaces} = this.#input.objects;
    return namespaces === undefined ? {} : {namespaces};
  }
}

function notWatched(refusal: ApiError): Problem {
  return {
    message: `Services are polled, not watched: states between two polls are not known (${refusal.message})`,
    remedy: 'Get the right to watch services and endpointslices.discovery.k8s.io: "kubectl svc-trace access" prints the Role for it.',
    isMinor: true,
  };
}

function countPlaces(scope: ClusterScope): number {
  return scope.kind === 'cluster' ? 1 : scope.kind === 'namespaces' ? scope.namespaces.length : scope.services.length;
}

/** Uses the system clock even if the run has another clock, because watches do too. In milliseconds. */
function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, milliseconds);
    const stop = (): void => {
      clearTimeout(timer);
      resolve();
    };
    signal?.addEventListener('abort', stop, {once: true});
  });
}

const [step, maxWatchDelay, betweenPolls] = [50, 1500, 2000];
