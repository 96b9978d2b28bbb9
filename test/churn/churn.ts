import type {EndpointSliceObject, ServiceObject, ServiceSpec, SliceEndpoint} from '../../src/model/api-objects.ts';
import type {Family} from '../../src/model/address.ts';
import type {ApiObjects} from '../../src/model/snapshot.ts';
import type {StateChange} from '../../src/model/state-history.ts';
import type {Random} from '../bench/random.ts';
import {apiObjects, endpoint, service, slice} from '../cluster.ts';

/** A change of the API at a time, in milliseconds. */
type ApiEvent = Omit<StateChange, 'at'> & {readonly at: number; readonly kind: StateChange['kind']};

const nodeNames = ['node-a', 'node-b'] as const;

/**
 * API objects that change every 0.1 to 2 s, all of it in virtual time: pods get ready and unready, come and go; slices are added, deleted
 * and moved from one Service to another; Services change, are deleted and made again.
 */
export class Churn {
  readonly start: ApiObjects;
  readonly events: readonly ApiEvent[];
  readonly #random: Random;
  readonly #services: Map<string, ServiceObject>;
  readonly #slices: Map<string, EndpointSliceObject>;
  #version = 1000;

  constructor(random: Random, {seconds, services}: {readonly seconds: number; readonly services: number}) {
    this.#random = random;
    const all = Array.from({length: services}, (_, index) => this.#service(index));
    this.#services = new Map(all.map(object => [keyOf(object), object]));
    this.#slices = new Map(all.flatMap((object, index) => this.#slicesFor(object, index)).map(object => [keyOf(object), object]));
    this.start = this.#objects();
    this.events = this.#run(seconds * 1000);
  }

  /** The state of a client that got all events of each stream up to a time. */
  stateAt(times: {readonly services: number; readonly slices: number}): ApiObjects {
    const services = new Map((this.start.services ?? []).map(object => [keyOf(object), object]));
    const slices = new Map((this.start.endpointSlices ?? []).map(object => [keyOf(object), object]));
    for (const event of this.events) {
      if (event.kind === 'Service' && event.at <= times.services)
        put(services, event.before as ServiceObject | null, event.now as ServiceObject | null);
      if (event.kind === 'EndpointSlice' && event.at <= times.slices)
        put(slices, event.before as EndpointSliceObject | null, event.now as EndpointSliceObject | null);
    }
    return apiObjects({services: [...services.values()], endpointSlices: [...slices.values()], nodes: nodeObjects});
  }

  /** As a watch has shown it by a time: each event some milliseconds after it happened. */
  changes({from, to}: {readonly from: number; readonly to: number}): readonly StateChange[] {
    const seen = this.events.filter(({at}) => at > from && at <= to);
    return seen.map(event => ({...event, at: event.at + 40}) as StateChange);
  }

  #run(length: number): readonly ApiEvent[] {
    const events: ApiEvent[] = [];
    for (let at = 0; at < length; at += 100 + this.#random.below(1900))
      events.push(...this.#change().map(event => ({...event, at}) as ApiEvent));
    return events;
  }

  #change(): readonly Omit<StateChange, 'at'>[] {
    const random = this.#random;
    const kind = random.below(20);
    const objects = [...this.#slices.values()];
    const victim = objects[random.below(objects.length)];
    if (kind === 0) return this.#deleteOrMake();
    if (kind <= 2) return this.#changeService();
    if (victim === undefined) return [];
    if (kind === 3) return this.#moveSlice(victim);
    if (kind === 4) return this.#setSlice(victim, null);
    if (kind === 5) return this.#addSlice();
    const endpoints = [...(victim.endpoints ?? [])];
    const which = random.below(Math.max(1, endpoints.length));
    const one = endpoints[which];
    const isV6 = victim.addressType === 'IPv6';
    if (kind <= 8 || one === undefined) endpoints.push(this.#endpoint(isV6 ? 'IPv6' : 'IPv4'));
    else if (kind <= 11 && endpoints.length > 0) endpoints.splice(which, 1);
    else endpoints[which] = {...one, conditions: {ready: one.conditions?.ready === false, serving: true}};
    return this.#setSlice(victim, {...victim, endpoints});
  }

  #deleteOrMake(): readonly Omit<StateChange, 'at'>[] {
    const index = this.#random.below((this.start.services ?? []).length);
    const original = (this.start.services ?? [])[index];
    if (original === undefined) return [];
    const known = this.#services.get(keyOf(original)) ?? null;
    const now = known === null ? {...original, metadata: {...original.metadata, resourceVersion: this.#next()}} : null;
    put(this.#services, known, now);
    return [{kind: 'Service', before: known, now} as Omit<StateChange, 'at'>];
  }

  #changeService(): readonly Omit<StateChange, 'at'>[] {
    const all = [...this.#services.values()];
    const before = all[this.#random.below(Math.max(1, all.length))];
    if (before === undefined) return [];
    const {spec} = before;
    const change = this.#random.pick<Partial<ServiceSpec>>([
      {
        sessionAffinity: spec?.sessionAffinity === 'ClientIP' ? 'None' : 'ClientIP',
        sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}},
      },
      {internalTrafficPolicy: spec?.internalTrafficPolicy === 'Local' ? 'Cluster' : 'Local'},
      {type: 'NodePort', ports: (spec?.ports ?? []).map(port => ({...port, nodePort: 30_000 + this.#random.below(2000)}))},
    ]);
    const now = {...before, metadata: {...before.metadata, resourceVersion: this.#next()}, spec: {...spec, ...change}};
    put(this.#services, before, now);
    return [{kind: 'Service', before, now} as Omit<StateChange, 'at'>];
  }

  #moveSlice(before: EndpointSliceObject): readonly Omit<StateChange, 'at'>[] {
    const all = this.start.services ?? [];
    const target = all[this.#random.below(all.length)];
    const labels = {'kubernetes.io/service-name': target?.metadata.name ?? ''};
    return this.#setSlice(before, {...before, metadata: {...before.metadata, labels}});
  }

  #addSlice(): readonly Omit<StateChange, 'at'>[] {
    const all = this.start.services ?? [];
    const owner = all[this.#random.below(all.length)];
    if (owner === undefined) return [];
    const [made] = this.#slicesFor(owner, this.#version);
    return made === undefined ? [] : this.#setSlice(null, made);
  }

  #setSlice(before: EndpointSliceObject | null, next: EndpointSliceObject | null): readonly Omit<StateChange, 'at'>[] {
    const now = next === null ? null : {...next, metadata: {...next.metadata, resourceVersion: this.#next()}};
    put(this.#slices, before, now);
    return [{kind: 'EndpointSlice', before, now} as Omit<StateChange, 'at'>];
  }

  #service(index: number): ServiceObject {
    const dual = index % 3 === 0;
    return service(
      `shop/svc-${index}`,
      {
        clusterIP: `10.96.1.${index + 1}`,
        clusterIPs: [`10.96.1.${index + 1}`, ...(dual ? [`fd00:96::${index + 1}`] : [])],
        ipFamilies: ['IPv4', ...(dual ? ['IPv6'] : [])],
        ports: [{name: 'http', port: 80, protocol: 'TCP'}],
      },
      {metadata: {resourceVersion: this.#next()}},
    );
  }

  #slicesFor(owner: ServiceObject, index: number): readonly EndpointSliceObject[] {
    const families: readonly Family[] = (owner.spec?.ipFamilies ?? ['IPv4']).includes('IPv6') ? ['IPv4', 'IPv6'] : ['IPv4'];
    return families.flatMap(family =>
      [0, 1].map(part => {
        const endpoints = Array.from({length: 1 + this.#random.below(3)}, () => this.#endpoint(family));
        const made = slice(keyOf(owner), endpoints, {
          ...{name: `s-${index}-${family}-${part}`, addressType: family, ports: [{name: 'http', port: 8080, protocol: 'TCP'}]},
        });
        return {...made, metadata: {...made.metadata, resourceVersion: this.#next()}};
      }),
    );
  }

  #endpoint(family: Family): SliceEndpoint {
    const number = this.#random.below(40) + 1;
    const address = family === 'IPv4' ? `10.244.1.${number}` : `fd00:244::${number.toString(16)}`;
    return endpoint(address, nodeNames[number % 2], {ready: this.#random.chance(0.8)});
  }

  #objects(): ApiObjects {
    return apiObjects({services: [...this.#services.values()], endpointSlices: [...this.#slices.values()], nodes: nodeObjects});
  }

  #next(): string {
    return String(this.#version++);
  }
}

const nodeObjects = nodeNames.map((name, index) => ({
  metadata: {name},
  spec: {podCIDRs: ['10.244.1.0/24']},
  status: {addresses: [{type: 'InternalIP', address: `172.18.0.${index + 2}`}]},
}));

function put<T extends ServiceObject | EndpointSliceObject>(map: Map<string, T>, before: T | null, now: T | null): void {
  if (before !== null) map.delete(keyOf(before));
  if (now !== null) map.set(keyOf(now), now);
}

function keyOf({metadata}: ServiceObject | EndpointSliceObject): string {
  return `${metadata.namespace}/${metadata.name}`;
}
