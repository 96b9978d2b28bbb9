import type {Endpoint} from '../../model/endpoint.ts';
import type {EndpointSliceObject} from '../../model/api-objects.ts';
import type {Family} from '../../model/address.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {type AnsweredPlace, ClusterView, type PortEntry, serviceKey} from './cluster-view.ts';
import type {FormerOwner, ServiceState} from './service-states.ts';
import type {ProxyVersion} from '../../model/proxy-config.ts';

/** For a family, the chosen state of each Service, by `namespace/name`; every other Service is in its current state. */
export type ChosenState = ReadonlyMap<Family, ReadonlyMap<string, ServiceState>>;

interface ChosenOptions {
  readonly chosen: ChosenState;
  /** The slices that the Service of a port had within the grace period. */
  readonly recent: (port: ServicePort) => readonly EndpointSliceObject[];
  readonly formerOwner: FormerOwner;
  /** There are no other Services: for dumps that are narrowed to these. */
  readonly isNarrow?: boolean;
}

/** The API objects with some Services in an earlier state. The others are computed once, with `latest`. */
export class ChosenStates extends ClusterView {
  readonly #latest: ClusterView;
  readonly #chosen: ChosenState;
  readonly #views: ReadonlyMap<Family, ClusterView>;
  readonly #recent: ChosenOptions['recent'];
  readonly #formerOwner: FormerOwner;
  readonly #isNarrow: boolean;

  constructor(api: ApiObjects, latest: ClusterView, {chosen, recent, formerOwner, isNarrow = false}: ChosenOptions) {
    super(api);
    this.#formerOwner = formerOwner;
    this.#isNarrow = isNarrow;
    this.#latest = latest;
    this.#chosen = chosen;
    this.#recent = recent;
    this.#views = new Map([...chosen].map(([family, states]) => [family, new ClusterView(objectsOf(api, states))]));
  }

  override entries(family: Family, proxy: ProxyVersion): readonly PortEntry[] {
    const states = this.#chosen.get(family);
    const others = this.#isNarrow ? [] : this.#latest.entries(family, proxy);
    if (states === undefined) return others;
    return [...others.filter(({port}) => !states.has(serviceKey(port))), ...(this.#views.get(family)?.entries(family, proxy) ?? [])];
  }

  override endpointCount(family: Family, proxy: ProxyVersion): number {
    return this.#isNarrow ? this.#latest.endpointCount(family, proxy) : super.endpointCount(family, proxy);
  }

  override slicesOf(service: string, proxy: ProxyVersion): readonly EndpointSliceObject[] {
    const views = [...this.#chosen].flatMap(([family, states]) => (states.has(service) ? (this.#views.get(family) ?? []) : []));
    if (views.length === 0) return this.#latest.slicesOf(service, proxy);
    return views.flatMap(view => view.slicesOf(service, proxy));
  }

  override formerEndpoints(port: ServicePort, proxy: ProxyVersion): readonly Pick<Endpoint, 'address' | 'port'>[] {
    return this.endpointsIn(port, this.#recent(port), proxy);
  }

  override formerOwner(place: AnsweredPlace): ServiceName | null {
    return this.#formerOwner(place);
  }
}

function objectsOf(api: ApiObjects, states: ReadonlyMap<string, ServiceState>): ApiObjects {
  const all = [...states.values()];
  return {...api, services: all.flatMap(({service}) => service ?? []), endpointSlices: all.flatMap(({slices}) => slices)};
}
