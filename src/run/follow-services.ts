import {setTimeout} from 'node:timers/promises';
import {ClusterReader, type ClusterScope} from '../collect/cluster/cluster-reader.ts';
import {readServices, type ServiceObjects} from '../collect/cluster/read-cluster.ts';
import {ApiError, type KubeApi} from '../collect/kube/kube-api.ts';
import {CannotTell, type EarlierVersion, versionOf} from '../collect/watch/past-events.ts';
import {maxWatchedPlaces, type PastOfServices, watchServices} from '../collect/watch/service-watches.ts';
import type {ObjectMeta} from '../model/api-objects.ts';
import type {ApiObjects, Problem} from '../model/snapshot.ts';
import {gracePeriod, type StateChange, type StateHistory} from '../model/state-history.ts';
import type {Clock} from './clock.ts';
import {changedAt, ServiceHistory} from './service-history.ts';

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
   * Adds the states from this time on, which is before the first list, to the history. Where the API server does not know them any more, or
   * may not be asked, they stay unknown.
   */
  async recall(since: number): Promise<void> {
    if (this.#isPolled) return;
    const isEarlier = since < this.#listedAt - gracePeriod * 1000;
    const end = new AbortController();
    const signal = AbortSignal.any([this.#end.signal, end.signal]);
    const past = isEarlier ? watchServices(this.#input.api, {...this.#watched(since), ...ignored}, signal).past : this.#past;
    if (!isEarlier) this.#past = null;
    try {
      const {api} = this.#input;
      const states = past === null ? null : await recallStates({api, past, listedAt: this.#listedAt, signal}, since);
      if (states !== null) this.history.recall(states);
    } finally {
      end.abort(new Error('what was before is known'));
    }
  }

  close(): void {
    this.#end.abort(new Error('the run is over'));
  }

  #follow(): void {
    const {api, scope, clock} = this.#input;
    if (countPlaces(scope) > maxWatchedPlaces) {
      void this.#poll(null);
      return;
    }
    const {past, ended} = watchServices(
      api,
      {
        ...this.#watched(this.#listedAt - gracePeriod * 1000),
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

  /** What is watched, from versions of before the lists on: if possible of this time. */
  #watched(since: number) {
    const {api, scope, objects, versions} = this.#input;
    const listed = {objects, versions, listedAt: this.#listedAt, clockAheadMs: api.clockAheadMs};
    return {scope, objects, versions, from: earlierVersions(listed, since)};
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
  const remedy = 'Get the right to watch services and endpointslices.discovery.k8s.io: "kubectl svc-trace access" prints the Role for it.';
  return {message: `Services are polled, not watched: states between two polls are not known (${refusal.message})`, remedy, isMinor: true};
}

/** A watch for what was before the lists: the others tell what comes. */
const ignored = {onChange: () => {}, onRefused: () => {}};

function countPlaces(scope: ClusterScope): number {
  return scope.kind === 'cluster' ? 1 : scope.kind === 'namespaces' ? scope.namespaces.length : scope.services.length;
}

/** Uses the system clock even if the run has another clock, because watches do too. In milliseconds. */
async function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  // It rejects only when the signal is aborted, which ends the pause.
  await setTimeout(milliseconds, undefined, {signal}).catch(() => {});
}

const [step, maxWatchDelay, betweenPolls] = [50, 1500, 2000];

interface RecallInput {
  readonly api: KubeApi;
  /** What the watches tell of the time before the lists. */
  readonly past: readonly PastOfServices[];
  /** When the lists were read. Milliseconds since 1970, as all times here. */
  readonly listedAt: number;
  readonly signal: AbortSignal;
}

/**
 * The states of Services from a time on that is before they were first read. The watches deliver the events, without times: these are
 * written in the objects. What changed was in its earlier state right before its first event: the API server has lists of the last minutes,
 * by resourceVersion. Null where it does not know them any more, or where nothing shows that the events begin early enough.
 * @internal
 */
export async function recallStates({api, past, listedAt, signal}: RecallInput, since: number): Promise<StateHistory | null> {
  const whole = await Promise.all(past.map(({events}) => events.untilWhole()));
  if (whole.includes(false)) return null;
  const timing = {listedAt, timeOf: (metadata: ObjectMeta): number => changedAt(metadata, api.clockAheadMs)};
  const earlier = past.map(({events}) => countEarlier(events.events, {since, timeOf: timing.timeOf}));
  const proof = past
    .map(({events}, index) => events.events[(earlier[index] ?? 0) - 1]?.version ?? 0n)
    .reduce((a, b) => (a > b ? a : b), 0n);
  if (!past.every(({events: {from}}) => from !== null && (from.isEarly || BigInt(from.version) < proof))) return null;
  try {
    const parts = await Promise.all(
      past.map(async ({kind, events}, index) =>
        timed(
          (await events.changesFrom(earlier[index] ?? 0, api, signal)).map(change => ({...change, kind}) as Untimed),
          timing,
        ),
      ),
    );
    const changes = parts.flat().toSorted((a, b) => a.at - b.at);
    return {since, changes: changes.filter(({at}) => at >= since)};
  } catch (error) {
    // 410 or 400: it is only what was not known before.
    if (error instanceof ApiError || error instanceof CannotTell) return null;
    throw error;
  }
}

/** How many of the first events happened before a time, by what the objects say. A deletion has no time. */
function countEarlier(
  events: readonly {readonly now: {readonly metadata: ObjectMeta} | null}[],
  {since, timeOf}: {readonly since: number; readonly timeOf: (metadata: ObjectMeta) => number},
): number {
  const times = events.map(({now}) => (now === null ? null : timeOf(now.metadata)));
  // One whose time was not renewed with its version looks old among younger ones.
  const firstYoung = times.findIndex(time => time !== null && time > since - precision);
  return times.slice(0, firstYoung < 0 ? undefined : firstYoung).findLastIndex(time => time !== null && time > 0) + 1;
}

type Untimed = Pick<StateChange, 'kind' | 'before' | 'now'>;

/**
 * Adds the times. A change whose time is not written down, such as a deletion, or older than one before it, happened before the next one.
 */
function timed(
  changes: readonly Untimed[],
  {listedAt, timeOf}: {readonly listedAt: number; readonly timeOf: (metadata: ObjectMeta) => number},
): readonly StateChange[] {
  let latest = 1;
  const written = changes.map(({now}) => {
    const time = now === null ? 0 : timeOf(now.metadata);
    if (time < latest) return null;
    latest = time;
    return time + precision / 2;
  });
  // All of it happened before the list.
  let next = listedAt - 1;
  const all = changes.toReversed().map((change, index) => {
    next = Math.min(next, written[changes.length - 1 - index] ?? next);
    return {...change, at: next} as StateChange;
  });
  return all.reverse();
}

interface ListedObjects {
  /** What was read first, and the resourceVersions of these lists. */
  readonly objects: ApiObjects;
  readonly versions: ReadonlyMap<string, string>;
  readonly listedAt: number;
  readonly clockAheadMs: number;
}

/**
 * Versions of a time that is before the lists, the best first: that of the latest object that is known to be as old, and a guess by how
 * fast versions grow, for an API server that has forgotten the first one. None where no object is old enough.
 * @internal
 */
export function earlierVersions({objects, versions, listedAt, clockAheadMs}: ListedObjects, since: number): readonly EarlierVersion[] {
  const read = [...(objects.services ?? []), ...(objects.endpointSlices ?? []), ...(objects.nodes ?? [])];
  // Before 1.18 the API server does not write when an object was updated: all objects look as old as they exist.
  if (!read.some(({metadata}) => metadata.managedFields?.some(({time}) => time !== undefined))) return [];
  const all = read.flatMap(({metadata}) => {
    const version = versionOf(metadata);
    const time = changedAt(metadata, clockAheadMs);
    return version !== null && time > 0 ? [{version, time}] : [];
  });
  const listed = [...versions.values()].flatMap(resourceVersion => versionOf({resourceVersion}) ?? []);
  const latest = [...listed, ...all.map(({version}) => version)].reduce((a, b) => (a > b ? a : b), 0n);
  const limit = since - precision;
  // One whose time was not renewed with its version looks old among younger ones.
  const firstYoung = all.filter(({time}) => time > limit).reduce((a, {version}) => (version < a ? version : a), latest + 1n);
  const old = all.filter(({version, time}) => time <= limit && version < firstYoung);
  const witness = old.reduce<(typeof all)[number] | null>((a, one) => (a === null || one.version > a.version ? one : a), null);
  if (witness === null) return [];
  const perMs = Number(latest - witness.version) / Math.max(1, listedAt - witness.time);
  const guess = latest - BigInt(Math.ceil(perMs * (listedAt - since + margin)));
  return [
    {version: String(witness.version), isEarly: true},
    ...(guess > witness.version ? [{version: String(guess), isEarly: false}] : []),
  ];
}

/** Times of objects are in seconds. In milliseconds. */
const precision = 1000;

/** So much earlier than is needed: changes do not come evenly. In milliseconds. */
const margin = 8000;
