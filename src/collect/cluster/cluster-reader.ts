import type {ObjectMeta} from '../../model/api-objects.ts';
import type {ServiceName} from '../../model/finding.ts';
import {append} from '../../model/lists.ts';
import {isServiceList, type Problem} from '../../model/snapshot.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import {type ListName, type ObjectOf, shapes, usableItems} from '../objects/api-shapes.ts';

/** Which Services and slices to read. */
export type ClusterScope =
  | {readonly kind: 'cluster'}
  | {readonly kind: 'namespaces'; readonly namespaces: readonly string[]}
  | {readonly kind: 'services'; readonly services: readonly ServiceName[]};

/**
 * Reads kinds of objects, and records what could not be read as problems. Rejects with an ApiError if the API server cannot be reached at
 * all.
 */
export class ClusterReader {
  readonly problems: Problem[] = [];
  /** The resourceVersion of each list that was read completely, by its `listKey`. */
  readonly versions = new Map<string, string>();
  readonly #api: KubeApi;
  readonly #anyFailure: boolean;

  /** `anyFailure`: an unreachable API server is a problem like all others. */
  constructor(api: KubeApi, {anyFailure = false}: {readonly anyFailure?: boolean | undefined} = {}) {
    this.#api = api;
    this.#anyFailure = anyFailure;
  }

  /** Null where the list may not be read, or the API server has no such resource. */
  async list<Name extends ListName>({
    path,
    query,
    isOptional,
    onNotServed,
    ...what
  }: Listed<Name>): Promise<readonly ObjectOf<Name>[] | null> {
    try {
      const {items, resourceVersion} = await this.#api.list<unknown>(path, query);
      if (resourceVersion !== '') this.versions.set(listKey(path, query), resourceVersion);
      const usable = usableItems<ObjectOf<Name>>(path, items, shapes[what.of]);
      append(
        this.problems,
        usable.problems.map(problem => ({...problem, remedy: 'Correct the object. All others were checked.'})),
      );
      return usable.items;
    } catch (error) {
      if (onNotServed !== undefined && error instanceof ApiError && error.status === 404) onNotServed();
      else if (!(isOptional === true && error instanceof ApiError && error.status === 403)) this.#keep(error, what);
      return null;
    }
  }

  /** As a list of one; empty if it does not exist. */
  async get<Name extends ListName>({path, query, ...what}: Listed<Name>): Promise<readonly ObjectOf<Name>[] | null> {
    try {
      const usable = usableItems<ObjectOf<Name>>(path, [await this.#api.get<unknown>(path, query)], shapes[what.of]);
      append(
        this.problems,
        usable.problems.map(problem => ({...problem, ...ofServices(what.of)})),
      );
      // It exists, and what it says is not known.
      return usable.leftOut.length > 0 ? null : usable.items;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return [];
      this.#keep(error, what);
      return null;
    }
  }

  #keep(error: unknown, {of, remedy, isMinor}: Pick<Listed<ListName>, 'of' | 'remedy' | 'isMinor'>): void {
    if (!(error instanceof ApiError)) throw error;
    if (!this.#anyFailure && (error.status === null || error.status === 401)) throw error;
    const whatToDo = error.status === 403 ? remedy : 'Try again. Everything that could be read was checked.';
    this.problems.push({
      message: error.message,
      remedy: whatToDo,
      ...(isMinor ? {isMinor: true} : {}),
      ...(error.status === 403 ? {isPermanent: true as const} : {}),
      ...ofServices(of),
    });
  }
}

/** A problem with one of the lists that Services are made of names it. */
export function ofServices(list: ListName): Pick<Problem, 'list'> {
  return isServiceList(list) ? {list} : {};
}

interface Listed<Name extends ListName> {
  readonly of: Name;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** The remedy for a missing permission. */
  readonly remedy: string;
  /** The run is complete without it. */
  readonly isMinor?: boolean | undefined;
  /** That it may not be read is no problem. */
  readonly isOptional?: boolean | undefined;
  /** Called in place of a problem when the API server has no such resource. */
  readonly onNotServed?: (() => void) | undefined;
}

/** A list: its path, and what it is restricted to. */
export function listKey(path: string, query: Readonly<Record<string, string>> = {}): string {
  return Object.keys(query).length === 0 ? path : `${path}?${new URLSearchParams(query)}`;
}

/** The names of the first objects of a list: more would not be read by anyone. Rejects with an ApiError. */
export async function listNames(api: KubeApi, path: string): Promise<readonly ObjectMeta[]> {
  const {items} = await api.get<{readonly items?: unknown}>(path, {limit: '500'});
  return usableItems<{readonly metadata: ObjectMeta}>(path, Array.isArray(items) ? items : [], {}).items.map(({metadata}) => metadata);
}

/** The version of the API server, such as `v1.36.2`. Null if it is not told: nothing is evaluated with it. Requested once. */
export async function readServerVersion(api: KubeApi, signal: AbortSignal): Promise<string | null> {
  try {
    const {gitVersion} = await api.get<{readonly gitVersion?: unknown}>('/version', {}, {signal, once: true});
    return typeof gitVersion === 'string' ? gitVersion : null;
  } catch (error) {
    if (error instanceof ApiError || signal.aborted) return null;
    throw error;
  }
}
