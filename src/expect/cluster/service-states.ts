import {canonicalAddress, type Family} from '../../model/address.ts';
import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import {sliceService} from '../../model/endpoint.ts';
import {type ServiceName, nameOf} from '../../model/finding.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import type {NodeReading, StateChange, StateHistory} from '../../model/state-history.ts';
import {namespacedName} from '../../model/text.ts';
import type {AnsweredPlace} from './cluster-view.ts';
import {pushTo} from '../../model/lists.ts';

/** The state of a Service at one time in one family: the object, and its slices. */
export interface ServiceState {
  /** Null if the Service did not exist. */
  readonly service: ServiceObject | null;
  readonly slices: readonly EndpointSliceObject[];
  /** How long another state had replaced it when the node was read; 0 for the latest. In milliseconds. */
  readonly age: number;
}

/** The states of one Service in one family, from the newest to the oldest. */
export interface ServiceStates {
  /** `namespace/name`. */
  readonly service: string;
  readonly family: Family;
  /** The first is the latest. Equal states are one, with the age of the newest. */
  readonly states: readonly ServiceState[];
  /** The one of `states` in which the Service was before all changes. */
  readonly first: ServiceState | undefined;
}

/** The Services, `namespace/name`, that changed while they were followed, with their changes in order. */
export function changesByService({changes: all}: StateHistory): ReadonlyMap<string, readonly StateChange[]> {
  const changes = new Map<string, StateChange[]>();
  for (const change of all) for (const service of servicesOf(change)) pushTo(changes, service, change);
  return changes;
}

/**
 * All states that a Service had until the node was read. kube-proxy follows Services and slices by two independent watches, each in the
 * order of its events: every state of the Service can coincide with every state of its slices.
 */
export function serviceStates(
  service: string,
  family: Family,
  {api, changes, reading}: {readonly api: ApiObjects; readonly changes: readonly StateChange[]; readonly reading: NodeReading},
): ServiceStates {
  const services = serviceVersions(service, api, {changes, reading});
  const slices = sliceVersions(service, family, {api, changes, reading});
  const pairs = services.flatMap(one =>
    slices.map(other => ({service: one.value, slices: other.value, age: Math.max(one.age, other.age)})),
  );
  const sorted = pairs.toSorted((a, b) => a.age - b.age);
  const states = new Map<string, ServiceState>();
  for (const state of sorted) {
    const text = stateText(state);
    if (!states.has(text)) states.set(text, state);
  }
  const oldest = sorted.at(-1);
  const first = oldest === undefined ? undefined : states.get(stateText(oldest));
  return {service, family, states: [...states.values()], first};
}

/**
 * An event can reach this machine, or be processed here, later than kube-proxy on a node gets it: by no more than this, in milliseconds. A
 * process with a CPU limit that analyzes nodes is late by seconds.
 */
const transmission = 5000;

interface Version<T> {
  readonly value: T;
  readonly age: number;
}

interface Followed {
  readonly changes: readonly StateChange[];
  readonly reading: NodeReading;
}

/** From the newest to the oldest. */
function serviceVersions(service: string, api: ApiObjects, {changes, reading}: Followed): readonly Version<ServiceObject | null>[] {
  const all = changes.filter(change => change.kind === 'Service');
  if (all.length === 0) return [{value: (api.services ?? []).find(object => namespacedName(object.metadata) === service) ?? null, age: 0}];
  const own = all.filter(change => !isLater(change, reading));
  const versions: Version<ServiceObject | null>[] = [{value: (own.length === 0 ? all[0]?.before : own.at(-1)?.now) ?? null, age: 0}];
  for (const {before, at} of own.toReversed()) versions.push({value: before, age: ageOf(at, reading)});
  return versions;
}

/** From the newest to the oldest: undoing a change gives the set before it. */
function sliceVersions(
  service: string,
  family: Family,
  {api, changes, reading}: Followed & {readonly api: ApiObjects},
): readonly Version<readonly EndpointSliceObject[]>[] {
  const isOwn = (slice: EndpointSliceObject | null): slice is EndpointSliceObject =>
    slice !== null && sliceService(slice) === service && (slice.addressType ?? family) === family;
  const all = changes.flatMap(change => (change.kind === 'EndpointSlice' && (isOwn(change.before) || isOwn(change.now)) ? [change] : []));
  // A slice that changed is taken from its changes, every other one from the current objects.
  const set = new Map((api.endpointSlices ?? []).filter(isOwn).map(slice => [namespacedName(slice.metadata), slice]));
  const put = (gone: EndpointSliceObject | null, there: EndpointSliceObject | null): void => {
    if (gone !== null) set.delete(namespacedName(gone.metadata));
    if (isOwn(there)) set.set(namespacedName(there.metadata), there);
  };
  for (const {before, now} of all) put(before, now);
  for (const {before, now} of all.toReversed().filter(change => isLater(change, reading))) put(now, before);
  const versions: Version<readonly EndpointSliceObject[]>[] = [{value: [...set.values()], age: 0}];
  for (const {before, now, at} of all.toReversed().filter(change => !isLater(change, reading))) {
    put(now, before);
    versions.push({value: [...set.values()], age: ageOf(at, reading)});
  }
  return versions;
}

/** kube-proxy cannot have followed it when the node was read. */
function isLater({at, after}: Pick<StateChange, 'at' | 'after'>, {to}: NodeReading): boolean {
  return (after ?? at) > to + transmission;
}

/** A replacement after the read began, or one whose event is still outstanding, does not age a state. */
function ageOf(replacedAt: number, {from}: NodeReading): number {
  return Math.max(1, from - replacedAt);
}

/** The fields that kube-proxy reads. */
function stateText({service, slices}: ServiceState): string {
  const sorted = slices.map(slice => JSON.stringify([slice.metadata.name, withoutVersion(slice)])).sort();
  return JSON.stringify([service === null ? null : withoutVersion(service), sorted]);
}

/** Controllers write timestamps, which change nothing for kube-proxy. */
function withoutVersion<T extends ServiceObject | EndpointSliceObject>({metadata, ...object}: T): object {
  const {labels = {}, annotations = {}} = metadata;
  const {'endpoints.kubernetes.io/last-change-trigger-time': _, ...rest} = annotations;
  return {...object, labels: Object.entries(ofKubernetes(labels)), annotations: Object.entries(ofKubernetes(rest))};
}

/** Labels or annotations that may concern kube-proxy. */
export function ofKubernetes(map: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(map).filter(([key]) => key.includes('kubernetes.io/') && !key.startsWith('kubectl.kubernetes.io/')),
  );
}

/** The Service that an address or a node port belonged to within the grace period; null if it is none of those that changed. */
export type FormerOwner = (place: AnsweredPlace) => ServiceName | null;

/** For what names no Service by itself, such as a virtual server of IPVS. */
export function formerOwners(all: readonly Pick<ServiceStates, 'family' | 'states'>[]): FormerOwner {
  const owners = new Map<string, ServiceName>();
  for (const {family, states} of all) {
    for (const {service} of states) {
      if (service === null) continue;
      const name = nameOf(service);
      for (const address of serviceAddresses(service)) owners.set(address, name);
      for (const {protocol = 'TCP', nodePort = 0} of service.spec?.ports ?? [])
        if (nodePort !== 0) owners.set(nodePortKey(family, protocol, nodePort), name);
    }
  }
  return ({family, protocol, address, port}) =>
    owners.get(canonicalAddress(address) ?? address) ?? owners.get(nodePortKey(family, protocol, port)) ?? null;
}

function serviceAddresses({spec, status}: ServiceObject): readonly string[] {
  const {clusterIP, clusterIPs, externalIPs} = spec ?? {};
  const ingress = (status?.loadBalancer?.ingress ?? []).flatMap(({ip}) => ip ?? []);
  return [clusterIP ?? [], clusterIPs ?? [], externalIPs ?? [], ingress].flat().flatMap(address => canonicalAddress(address) ?? []);
}

function nodePortKey(family: Family, protocol: string, port: number): string {
  return `${family} ${protocol} ${port}`;
}

/** The Services, `namespace/name`, that a change concerns: a slice can move from one to another. */
export function servicesOf(change: StateChange): readonly string[] {
  const {before, now} = change;
  const names =
    change.kind === 'Service'
      ? [before, now].flatMap(object => (object === null ? [] : [namespacedName(object.metadata)]))
      : [change.before, change.now].flatMap(slice => (slice === null ? [] : (sliceService(slice) ?? [])));
  return [...new Set(names)];
}
