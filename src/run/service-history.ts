import type {ServiceObjects} from '../collect/cluster/read-cluster.ts';
import type {ObjectMeta, ServiceObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {namespacedName} from '../model/text/namespaced-name.ts';

/** Since when Services and their slices are as they are, as far as several readings of the API show. Times are milliseconds since 1970. */
export class ServiceHistory {
  #latest: Reading;
  readonly #seenToChange = new Map<string, number>();
  readonly #readings: Reading[] = [];

  constructor(api: ApiObjects, readAt: number) {
    this.#latest = readingOf(api, readAt);
    this.#readings.push(this.#latest);
  }

  /** Another reading. When exactly something changed between the two is not known: it counts as just now. */
  update(api: ApiObjects, readAt: number): void {
    const next = readingOf(api, readAt);
    for (const key of new Set([...next.states.keys(), ...this.#latest.states.keys()])) {
      if (!covers(this.#latest, key) || !covers(next, key)) continue;
      if (next.states.get(key)?.print !== this.#latest.states.get(key)?.print) this.#seenToChange.set(key, readAt);
    }
    this.#latest = next;
    this.#readings.push(next);
  }

  /** Of a Service, `namespace/name`; of one that is not there, when it was first seen not to be. */
  stableSince(key: string): number {
    const state = this.#latest.states.get(key);
    return Math.max(state === undefined ? this.#missingSince(key) : state.changedAt, this.#seenToChange.get(key) ?? 0);
  }

  #missingSince(key: string): number {
    return (this.#readings.find(reading => covers(reading, key)) ?? this.#latest).readAt;
  }
}

/** Another text whenever one of these Services, or a slice of it, is another. */
export function printOf(services: readonly ServiceObject[], objects: ServiceObjects): string {
  const states = statesOf(objects);
  const keys = services.map(({metadata}) => namespacedName(metadata)).sort();
  return JSON.stringify(keys.map(key => [key, states.get(key)?.print]));
}

interface Reading {
  readonly readAt: number;
  readonly namespaces: readonly string[] | undefined;
  readonly states: ReadonlyMap<string, ServiceState>;
}

function readingOf(api: ApiObjects, readAt: number): Reading {
  return {readAt, namespaces: api.namespaces, states: statesOf(api)};
}

/** Whether the Service would be in the reading if it were there. */
function covers({namespaces, states}: Reading, key: string): boolean {
  return namespaces === undefined || states.has(key) || namespaces.includes(key.split('/', 1)[0] ?? '');
}

interface ServiceState {
  /** Another one whenever the Service or one of its slices is another. */
  readonly print: string;
  readonly changedAt: number;
}

/** By `namespace/name`. */
function statesOf({services, endpointSlices, endpoints}: ServiceObjects): ReadonlyMap<string, ServiceState> {
  const states = new Map<string, ServiceState>();
  const add = (key: string, metadata: ObjectMeta): void => {
    const known = states.get(key);
    states.set(key, {
      print: `${known?.print ?? ''} ${metadata.name}:${metadata.resourceVersion ?? ''}`,
      changedAt: Math.max(known?.changedAt ?? 0, changedAt(metadata)),
    });
  };
  for (const {metadata} of services ?? []) add(namespacedName(metadata), metadata);
  const slices = (endpointSlices ?? []).toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  for (const {metadata} of slices) add(`${metadata.namespace}/${metadata.labels?.['kubernetes.io/service-name']}`, metadata);
  for (const {metadata} of endpoints ?? []) add(namespacedName(metadata), metadata);
  return states;
}

/** By what the API server and the controllers write down; 0 when they do not. */
function changedAt({creationTimestamp, annotations, managedFields}: ObjectMeta): number {
  const times = [
    creationTimestamp,
    annotations?.['endpoints.kubernetes.io/last-change-trigger-time'],
    ...(managedFields ?? []).map(({time}) => time),
  ];
  return Math.max(0, ...times.map(text => Date.parse(text ?? '')).filter(time => !Number.isNaN(time)));
}
