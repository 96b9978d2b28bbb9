import {compareText} from '../../model/text.ts';
import {canonicalAddress, familyOf, joinHostPort} from '../../model/address.ts';
import {
  type EndpointSliceObject,
  type EndpointsObject,
  headlessLabel,
  proxyNameLabel,
  type SliceEndpoint,
  type SlicePort,
} from '../../model/api-objects.ts';
import {type Endpoint, type EndpointSet, sliceService} from '../../model/endpoint.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import type {ServicePort} from '../../model/service-port.ts';
import * as versions from './proxy-versions.ts';
import {uniqueBy} from '../../model/lists.ts';

/** The Service that a slice belongs to, as `namespace/name`; null if kube-proxy of this version does not use the slice. */
export function sliceOwner(slice: EndpointSliceObject, version: KubeProxyVersion): string | null {
  const labels = slice.metadata.labels ?? {};
  if (labels[headlessLabel] !== undefined) return null;
  if (versions.hasSharedSelector(version) && labels[proxyNameLabel] !== undefined) return null;
  return sliceService(slice);
}

/**
 * The endpoints of a Service port, merged over its slices and sorted. Follows `EndpointSliceCache.endpointInfoByServicePort`
 * and `addEndpoints`.
 */
export function endpointSet(port: ServicePort, slices: readonly EndpointSliceObject[], version: KubeProxyVersion): EndpointSet {
  const endpoints: Endpoint[] = [];
  for (const slice of slices) {
    if (slice.addressType !== port.family && slice.addressType !== undefined) continue;
    for (const slicePort of slice.ports ?? []) {
      if (matches(slicePort, port)) addSlice(endpoints, slice, {port: slicePort.port ?? 0, servicePort: port, version});
    }
  }
  return merged(endpoints, {byAddress: versions.mergesByAddress(version), keepsOrder: false});
}

/** The same from an Endpoints object: ready addresses of one family, in the object's order. Follows `endpointsToEndpointsMap` of 1.21. */
export function endpointSetOfEndpoints(port: ServicePort, object: EndpointsObject | undefined): EndpointSet {
  const endpoints: Endpoint[] = [];
  for (const subset of object?.subsets ?? []) {
    for (const subsetPort of subset.ports ?? []) {
      if (!matches({...subsetPort, name: subsetPort.name ?? ''}, port)) continue;
      for (const {ip, nodeName, targetRef} of subset.addresses ?? []) {
        if (ip === undefined || familyOf(ip) !== port.family) continue;
        const endpoint: SliceEndpoint = {addresses: [ip], nodeName: nodeName ?? null, targetRef};
        endpoints.push(toEndpoint(endpoint, ip, {port: subsetPort.port ?? 0, slice: object?.metadata.name ?? ''}));
      }
    }
  }
  return merged(endpoints, {byAddress: true, keepsOrder: true});
}

/** A port of a slice belongs to a Service port by name and protocol; `targetPort` does not matter. */
function matches(slicePort: SlicePort, port: ServicePort): boolean {
  if (slicePort.name === undefined || slicePort.name === null) return false;
  if (typeof slicePort.port !== 'number' || slicePort.port === 0) return false;
  return slicePort.name === port.portName && (slicePort.protocol ?? 'TCP') === port.protocol;
}

function addSlice(
  to: Endpoint[],
  slice: EndpointSliceObject,
  {port, servicePort, version}: {readonly port: number; readonly servicePort: ServicePort; readonly version: KubeProxyVersion},
): void {
  const given = slice.endpoints ?? [];
  const endpoints = versions.sortsWithinSlice(version) ? given.toSorted((a, b) => compareText(firstAddress(a), firstAddress(b))) : given;
  const onlyReady = versions.knowsReadyEndpointsOnly(version);
  const asWritten = versions.keepsAddressSpelling(version);
  const place = {port, slice: slice.metadata.name};
  for (const endpoint of endpoints) {
    const written = firstAddress(endpoint);
    const address = canonicalAddress(written);
    if (address === null || (address.includes(':') ? 'IPv6' : 'IPv4') !== servicePort.family) continue;
    if (onlyReady && endpoint.conditions?.ready === false) continue;
    to.push(toEndpoint(endpoint, asWritten ? written : address, place));
  }
}

function firstAddress(endpoint: SliceEndpoint | null): string {
  return endpoint?.addresses?.[0] ?? '';
}

/** Conditions have kube-proxy's defaults: ready and serving if unset, terminating only if set. */
function toEndpoint(endpoint: SliceEndpoint, address: string, {port, slice}: {port: number; slice: string}): Endpoint {
  const {conditions, hints} = endpoint;
  return {
    address,
    port,
    slice,
    hostPort: joinHostPort(address, port),
    ready: conditions?.ready ?? true,
    serving: conditions?.serving ?? true,
    terminating: conditions?.terminating ?? false,
    nodeName: typeof endpoint.nodeName === 'string' ? endpoint.nodeName : (topologyOf(endpoint)[hostnameLabel] ?? null),
    sliceEndpoint: endpoint,
    zoneHints: hintNames(hints?.forZones),
    nodeHints: hintNames(hints?.forNodes),
    chainName: undefined,
  };
}

/** The endpoint's topology by its node's labels, as in `v1beta1`; `v1` has fields for node and zone. */
export function topologyOf({topology, deprecatedTopology, nodeName, zone}: SliceEndpoint): Readonly<Record<string, string>> {
  return {
    ...deprecatedTopology,
    ...topology,
    ...(typeof nodeName === 'string' ? {[hostnameLabel]: nodeName} : {}),
    ...(zone === undefined ? {} : {[zoneLabel]: zone}),
  };
}

const hostnameLabel = 'kubernetes.io/hostname';
const zoneLabel = 'topology.kubernetes.io/zone';

function hintNames(hints: readonly {readonly name?: string}[] | null | undefined): readonly string[] | null {
  return !hints?.length ? null : hints.map(({name}) => name ?? '');
}

interface MergeOptions {
  /** kube-proxy's key of an endpoint is its address; otherwise its address and port. */
  readonly byAddress: boolean;
  /** The endpoints stay in the order in which they are given; otherwise they are sorted. */
  readonly keepsOrder: boolean;
}

/** Keeps one endpoint under each of kube-proxy's keys, the first, and records those that contradict each other. */
function merged(all: readonly Endpoint[], options: MergeOptions): EndpointSet {
  if (options.keepsOrder) return mergedByKey(all, options);
  const sorted = all.toSorted((a, b) => compareText(a.hostPort, b.hostPort));
  // Nearly no Service port has endpoints with the same key, so a map of all would cost more than it shows.
  return hasRepeatedKey(sorted, options) ? mergedByKey(all, options) : {endpoints: sorted, ambiguous: noDuplicates};
}

/** Sorted, endpoints with the same key are neighbors. */
function hasRepeatedKey(sorted: readonly Endpoint[], options: MergeOptions): boolean {
  let before = '';
  for (const endpoint of sorted) {
    const key = endpointKey(endpoint, options);
    if (key === before) return true;
    before = key;
  }
  return false;
}

function mergedByKey(all: readonly Endpoint[], options: MergeOptions): EndpointSet {
  const groups = Map.groupBy(all, endpoint => endpointKey(endpoint, options));
  const endpoints = [...groups.values()].flatMap(([first]) => first ?? []);
  if (!options.keepsOrder) endpoints.sort((a, b) => compareText(a.hostPort, b.hostPort));
  return {endpoints, ambiguous: new Map([...groups].filter(([, same]) => new Set(same.map(content)).size > 1))};
}

function endpointKey({address, hostPort}: Endpoint, {byAddress}: MergeOptions): string {
  return byAddress ? address : hostPort;
}

const noDuplicates: ReadonlyMap<string, readonly Endpoint[]> = new Map();

function content(endpoint: Endpoint): string {
  const {hostPort, ready, serving, terminating, nodeName, zoneHints, nodeHints} = endpoint;
  return JSON.stringify([hostPort, ready, serving, terminating, nodeName, zoneHints, nodeHints]);
}

/**
 * All lists that kube-proxy can have built from a set with contradicting duplicates, the likeliest first. If upstream defines the result,
 * there is one list. At most 64.
 */
export function possibleEndpoints(set: EndpointSet, nodeName: string, version: KubeProxyVersion): readonly (readonly Endpoint[])[] {
  let lists: (readonly Endpoint[])[] = [set.endpoints];
  for (const [key, all] of set.ambiguous) {
    const survivors = maySurvive(all, nodeName, version);
    const next = lists.flatMap(list => survivors.map(survivor => replace(list, key, survivor, versions.mergesByAddress(version))));
    lists = next.slice(0, 64);
  }
  return lists;
}

/** Follows the end of `addEndpoints`: 1.36 prefers endpoints that are not terminating, earlier versions those on this node. */
function maySurvive(all: readonly Endpoint[], nodeName: string, version: KubeProxyVersion): readonly Endpoint[] {
  const isPreferred = (endpoint: Endpoint): boolean =>
    versions.prefersNotTerminating(version) ? !endpoint.terminating : endpoint.nodeName === nodeName;
  const preferred = all.filter(isPreferred);
  const candidates = preferred.length > 0 ? preferred : all;
  // Within one slice the order is defined, and with it the result: the last preferred endpoint, or the first if none is preferred.
  const oneSlice = new Set(all.map(({slice}) => slice)).size === 1 && !versions.mergesByAddress(version);
  if (!oneSlice) return uniqueBy(candidates, content);
  const winner = preferred.length > 0 ? preferred.at(-1) : all[0];
  return winner === undefined ? [] : [winner];
}

function replace(list: readonly Endpoint[], key: string, survivor: Endpoint, byAddress: boolean): readonly Endpoint[] {
  const changed = list.map(endpoint => ((byAddress ? endpoint.address : endpoint.hostPort) === key ? survivor : endpoint));
  return changed.sort((a, b) => compareText(a.hostPort, b.hostPort));
}
