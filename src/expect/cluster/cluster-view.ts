import {heldIn, once} from '../../model/once.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import type {EndpointSliceObject, EndpointsObject} from '../../model/api-objects.ts';
import type {Endpoint, EndpointSet} from '../../model/endpoint.ts';
import type {Family} from '../../model/address.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {endpointChainName} from '../iptables/chain-names.ts';
import {readsEndpoints} from './proxy-versions.ts';
import {endpointSet, endpointSetOfEndpoints, sliceOwner} from './endpoint-sets.ts';
import {servicePorts} from './service-ports.ts';
import type {ProxyVersion} from '../../model/proxy-config.ts';
import {pushTo} from '../../model/lists.ts';
import {namespacedName} from '../../model/text.ts';

/** A Service port with all its endpoints, which are the same on every node. */
export interface PortEntry {
  readonly port: ServicePort;
  readonly set: EndpointSet;
  /** The name of an endpoint's chain, computed once for all nodes. */
  readonly endpointChain: (endpoint: Endpoint) => string;
}

/** The API objects as kube-proxy interprets them, computed once for all nodes that run the same version. */
export class ClusterView {
  readonly #api: ApiObjects;
  readonly #entries = new Map<string, readonly PortEntry[]>();
  readonly #slices = new Map<number, ReadonlyMap<string, readonly EndpointSliceObject[]>>();

  constructor(api: ApiObjects) {
    this.#api = api;
  }

  /** Every Service port that a kube-proxy of this version serves in the family, in the order of the API's list. */
  entries(family: Family, proxy: ProxyVersion): readonly PortEntry[] {
    const key = `${family} ${proxy.version.minor} ${JSON.stringify(proxy.gates)}`;
    return heldIn(this.#entries, key, () => this.#build(family, proxy));
  }

  /** How many endpoints all Service ports of the family have, ready or not: in a large cluster kube-proxy writes rules without comments. */
  endpointCount(family: Family, proxy: ProxyVersion): number {
    return countOf(this.entries(family, proxy));
  }

  /** The slices that a kube-proxy of this version uses for a Service, `namespace/name`. */
  slicesOf(service: string, proxy: ProxyVersion): readonly EndpointSliceObject[] {
    return this.#slicesByService(proxy).get(service) ?? [];
  }

  /** The substitute for objects that kube-proxy of this version reads and that were not collected. */
  standIn({version, gates}: ProxyVersion): {readonly used: string; readonly read: string} | null {
    const {endpoints, endpointSlices} = this.#api;
    const old = readsEndpoints(version, gates);
    if (old && endpoints === null && endpointSlices !== null) return {used: 'EndpointSlices', read: 'Endpoints'};
    return !old && endpointSlices === null && endpoints !== null ? {used: 'Endpoints', read: 'EndpointSlices'} : null;
  }

  /** Endpoints that a Service port had within kube-proxy's grace period; none if Services were not followed. */
  formerEndpoints(_port: ServicePort, _proxy: ProxyVersion): readonly Pick<Endpoint, 'address' | 'port'>[] {
    return [];
  }

  /** The Service that an address or node port belonged to within kube-proxy's grace period; null if Services were not followed. */
  formerOwner(_place: AnsweredPlace): ServiceName | null {
    return null;
  }

  /** The endpoints that these slices give a Service port. */
  protected endpointsIn(port: ServicePort, slices: readonly EndpointSliceObject[], {version}: ProxyVersion): readonly Endpoint[] {
    return slices.flatMap(slice => endpointSet(port, [slice], version).endpoints);
  }

  #build(family: Family, proxy: ProxyVersion): readonly PortEntry[] {
    const endpointsOf = this.#source(proxy);
    const entryOf = (port: ServicePort): PortEntry => ({port, set: endpointsOf(port), endpointChain: chainNames(port)});
    return (this.#api.services ?? []).flatMap(service => servicePorts(service, family, proxy).map(entryOf));
  }

  #source(proxy: ProxyVersion): (port: ServicePort) => EndpointSet {
    const slices = this.#slicesByService(proxy);
    const old = readsEndpoints(proxy.version, proxy.gates) || this.#api.endpointSlices === null;
    // Objects of the other kind replace those that were not read: see `standIn`.
    if (!old || this.#api.endpoints === null) return port => endpointSet(port, slices.get(serviceKey(port)) ?? [], proxy.version);
    const objects = new Map<string, EndpointsObject>(this.#api.endpoints.map(object => [namespacedName(object.metadata), object]));
    return port => endpointSetOfEndpoints(port, objects.get(serviceKey(port)));
  }

  #slicesByService({version}: ProxyVersion): ReadonlyMap<string, readonly EndpointSliceObject[]> {
    return heldIn(this.#slices, version.minor, () => {
      const groups = new Map<string, EndpointSliceObject[]>();
      for (const slice of this.#api.endpointSlices ?? []) {
        const owner = sliceOwner(slice, version);
        if (owner !== null) pushTo(groups, owner, slice);
      }
      return groups;
    });
  }
}

const countOf = once((entries: readonly PortEntry[]) => entries.reduce((sum, {set}) => sum + set.endpoints.length, 0));

function chainNames({servicePortName, protocol}: ServicePort): (endpoint: Endpoint) => string {
  return endpoint => (endpoint.chainName ??= endpointChainName(servicePortName, protocol, endpoint.hostPort));
}

export function serviceKey(port: {readonly namespace: string; readonly service: string}): string {
  return `${port.namespace}/${port.service}`;
}

/** An address, protocol and port at which a node answers. */
export interface AnsweredPlace {
  readonly family: Family;
  readonly protocol: string;
  readonly address: string;
  readonly port: number;
}
