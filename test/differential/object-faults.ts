import type {EndpointSliceObject, ServiceObject, SliceEndpoint} from '../../src/model/api-objects.ts';
import type {ApiObjects} from '../../src/model/snapshot.ts';
import type {Random} from '../bench/random.ts';

type Change = (api: ApiObjects, random: Random) => ApiObjects;

/** Objects that changed after the rules were written, in one way. */
export function changeObjects(api: ApiObjects, random: Random): ApiObjects {
  return random.pick(changes)(api, random);
}

/** A part of all endpoints gets other addresses, as they do while a kube-proxy is stopped. */
export function replaceEndpoints(api: ApiObjects, random: Random): ApiObjects {
  const share = random.pick([0.2, 0.5, 1]);
  return withEndpoints(api, endpoints => endpoints.map(endpoint => (random.chance(share) ? moved(endpoint, random) : endpoint)));
}

const changes: readonly [Change, ...Change[]] = [
  replaceEndpoints,
  (api, random) => withOneSlice(api, random, endpoints => random.shuffle(endpoints).slice(1)),
  (api, random) =>
    withOneSlice(api, random, endpoints => [...endpoints, ...endpoints.slice(0, 1).map(endpoint => moved(endpoint, random))]),
  (api, random) => withOneSlice(api, random, endpoints => endpoints.map(endpoint => ({...endpoint, conditions: conditions(random)}))),
  (api, random) => withOneSlice(api, random, endpoints => endpoints.map(({hints: _, ...endpoint}) => endpoint)),
  (api, random) =>
    withOneSlice(api, random, endpoints =>
      endpoints.map(endpoint => ({...endpoint, nodeName: random.pick(['node-a', 'node-b', 'node-d'])})),
    ),
  (api, random) => withOneSlice(api, random, () => []),
  (api, random) =>
    withSlice(api, random, slice => ({
      ...slice,
      ports: (slice.ports ?? []).map(port => ({...port, port: (port.port ?? 0) + random.below(2)})),
    })),
  (api, random) => ({...api, endpointSlices: random.shuffle(api.endpointSlices ?? []).slice(1)}),
  (api, random) => ({...api, services: random.shuffle(api.services ?? []).slice(1)}),
  (api, random) =>
    withSpec(api, random, ({externalTrafficPolicy}) => ({externalTrafficPolicy: externalTrafficPolicy === 'Local' ? 'Cluster' : 'Local'})),
  (api, random) =>
    withSpec(api, random, ({internalTrafficPolicy}) => ({internalTrafficPolicy: internalTrafficPolicy === 'Local' ? 'Cluster' : 'Local'})),
  (api, random) =>
    withSpec(api, random, () => ({loadBalancerSourceRanges: [random.pick(['198.51.100.0/24', '0.0.0.0/0', '192.168.1.0/24'])]})),
  (api, random) => withSpec(api, random, () => ({externalIPs: [`203.0.113.${200 + random.below(3)}`]})),
  (api, random) =>
    withSpec(api, random, ({sessionAffinity}) =>
      sessionAffinity === 'ClientIP'
        ? {sessionAffinity: 'None', sessionAffinityConfig: undefined}
        : {sessionAffinity: 'ClientIP', sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}},
    ),
  (api, random) => withSpec(api, random, ({ports}) => ({ports: (ports ?? []).map(port => ({...port, port: (port.port ?? 0) + 1}))})),
  (api, random) =>
    withSpec(api, random, ({ports}) => ({
      ports: (ports ?? []).map(port => (port.nodePort ? {...port, nodePort: port.nodePort + 100} : port)),
    })),
  (api, random) => withSpec(api, random, () => ({type: 'ClusterIP'})),
];

function moved(endpoint: SliceEndpoint, random: Random): SliceEndpoint {
  const host = 100 + random.below(150);
  return {
    ...endpoint,
    addresses: (endpoint.addresses ?? []).map(address =>
      address.replace(/[0-9a-f]+$/, address.includes(':') ? host.toString(16) : String(host)),
    ),
  };
}

function conditions(random: Random): NonNullable<SliceEndpoint['conditions']> {
  return {ready: random.chance(0.5), serving: random.chance(0.7), terminating: random.chance(0.3)};
}

function withEndpoints(api: ApiObjects, change: (endpoints: readonly SliceEndpoint[]) => readonly SliceEndpoint[]): ApiObjects {
  return {...api, endpointSlices: (api.endpointSlices ?? []).map(slice => ({...slice, endpoints: change(slice.endpoints ?? [])}))};
}

function withSlice(api: ApiObjects, random: Random, change: (slice: EndpointSliceObject) => EndpointSliceObject): ApiObjects {
  const slices = api.endpointSlices ?? [];
  const at = random.below(Math.max(1, slices.length));
  return {...api, endpointSlices: slices.map((slice, index) => (index === at ? change(slice) : slice))};
}

function withOneSlice(
  api: ApiObjects,
  random: Random,
  change: (endpoints: readonly SliceEndpoint[]) => readonly SliceEndpoint[],
): ApiObjects {
  return withSlice(api, random, slice => ({...slice, endpoints: change(slice.endpoints ?? [])}));
}

type Spec = NonNullable<ServiceObject['spec']>;

function withSpec(api: ApiObjects, random: Random, change: (spec: Spec) => Partial<Record<keyof Spec, unknown>>): ApiObjects {
  const services = api.services ?? [];
  const at = random.below(Math.max(1, services.length));
  const changed = (service: ServiceObject): ServiceObject => ({...service, spec: {...service.spec, ...change(service.spec ?? {})} as Spec});
  return {...api, services: services.map((service, index) => (index === at ? changed(service) : service))};
}
