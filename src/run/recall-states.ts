import {readPast} from '../collect/watch/read-past.ts';
import type {ClusterScope} from '../collect/cluster/cluster-scope.ts';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import type {ObjectMeta} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import type {StateChange, StateHistory} from '../model/state-history.ts';
import {changedAt} from './changed-at.ts';

interface RecallInput {
  readonly api: KubeApi;
  readonly scope: ClusterScope;
  /** What was read first, and the resourceVersions of these lists by their paths. */
  readonly objects: ApiObjects;
  readonly versions: ReadonlyMap<string, string>;
  /** When that was. Milliseconds since 1970, as all times here. */
  readonly listedAt: number;
  readonly signal: AbortSignal;
}

/**
 * The states of Services from a time on that is before they were first read. The API server keeps the objects and events of the last
 * minutes, by resourceVersion and not by time: an earlier version is guessed from objects whose time is known, and the times of what
 * happened since then show whether it is early enough. Null where that cannot be told.
 */
export async function recallStates(input: RecallInput, since: number): Promise<StateHistory | null> {
  const {api, scope, objects, versions, listedAt, signal} = input;
  const timeOf = (metadata: ObjectMeta): number => changedAt(metadata, api.clockAheadMs);
  for (const {version, isEarly} of earlierVersions(input, {since, timeOf})) {
    const past = await readPast(api, {scope, objects, versions, version: String(version), signal});
    if (past === null) return null;
    // What is older than an object that was there already bears the time of another change.
    const atLeast = Math.max(0, ...past.objects.map(({metadata}) => timeOf(metadata)));
    const times = past.changes.flatMap(({now}) => (now === null ? [] : [timeOf(now.metadata)])).filter(time => time >= atLeast);
    if (!isEarly && Math.min(Infinity, ...times) > since) continue;
    return {since, changes: timed(past.changes, {listedAt, timeOf}).filter(({at}) => at >= since)};
  }
  return null;
}

/** A change whose time is not written down, such as a deletion, happened before the next one of its kind. */
function timed(
  changes: readonly Pick<StateChange, 'kind' | 'before' | 'now'>[],
  {listedAt, timeOf}: {readonly listedAt: number; readonly timeOf: (metadata: ObjectMeta) => number},
): readonly StateChange[] {
  const latest = {Service: listedAt, EndpointSlice: listedAt};
  const all = changes.toReversed().map(change => {
    const written = change.now === null ? Infinity : timeOf(change.now.metadata) + precision / 2;
    latest[change.kind] = Math.min(latest[change.kind], written);
    return {...change, at: latest[change.kind]} as StateChange;
  });
  return all.reverse().toSorted((a, b) => a.at - b.at);
}

interface Earlier {
  readonly version: bigint;
  /** It is known to be of the time wanted or older. */
  readonly isEarly: boolean;
}

interface Timing {
  readonly since: number;
  readonly timeOf: (metadata: ObjectMeta) => number;
}

/** Versions to try, the latest first: the API server may have forgotten the earlier ones. */
function earlierVersions({objects, versions, listedAt}: RecallInput, {since, timeOf}: Timing): readonly Earlier[] {
  const all = [...(objects.services ?? []), ...(objects.endpointSlices ?? []), ...(objects.nodes ?? [])].flatMap(({metadata}) => {
    const {resourceVersion = ''} = metadata;
    const time = timeOf(metadata);
    return /^\d+$/.test(resourceVersion) && time > 0 ? [{version: BigInt(resourceVersion), time}] : [];
  });
  const listed = [...versions.values()].filter(text => /^\d+$/.test(text)).map(text => BigInt(text));
  const latest = [...listed, ...all.map(({version}) => version)].reduce((a, b) => (a > b ? a : b), 0n);
  const limit = since - precision;
  // One whose time was not renewed with its version looks old among younger ones.
  const firstYoung = all.filter(({time}) => time > limit).reduce((a, {version}) => (version < a ? version : a), latest + 1n);
  const old = all.filter(({version, time}) => time <= limit && version < firstYoung);
  const witness = old.reduce<(typeof all)[number] | null>((a, one) => (a === null || one.version > a.version ? one : a), null);
  if (witness === null) return [];
  const perMs = Number(latest - witness.version) / Math.max(1, listedAt - witness.time);
  const guesses = [1, 4].map(factor => latest - BigInt(Math.ceil(perMs * factor * (listedAt - since + margin))));
  const later = guesses.filter(version => version > witness.version).map(version => ({version, isEarly: false}));
  return [...later, {version: witness.version, isEarly: true}];
}

/** Times of objects are in seconds. In milliseconds. */
const precision = 1000;

/** So much earlier than is needed: changes do not come evenly. In milliseconds. */
const margin = 8000;
