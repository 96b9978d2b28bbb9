import {ClusterView} from '../expect/cluster/cluster-view.ts';
import type {ProxyVersion} from '../model/proxy-config.ts';
import type {EndpointChange} from '../model/findings/bundle-diff.ts';
import {type Endpoint, podOf} from '../model/endpoint.ts';
import {families} from '../model/address.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {namespacedName} from '../model/text.ts';
import {pairByKey, sameJson} from './diff-fields.ts';

/** Endpoints of Services that are new, removed, or changed their state. */
export function diffEndpoints(before: ApiObjects, after: ApiObjects, proxy: ProxyVersion): readonly EndpointChange[] {
  const changed = changedServices(before, after, proxy);
  const [old, young] = [before, after].map(api => endpointsOf(partOf(api, changed), proxy));
  return pairByKey(old ?? [], young ?? [], ({key}) => key).flatMap(pair => {
    const {port, endpoint} = pair.after ?? pair.before ?? missing();
    const [was, is] = [stateOf(pair.before), stateOf(pair.after)];
    if (was === is) return [];
    return [
      {
        kind: was === null ? 'came' : is === null ? 'went' : 'changed',
        service: {namespace: port.namespace, name: port.service},
        port: `${port.portName}/${port.protocol}`,
        ...{endpoint: endpoint.hostPort, pod: podOf(endpoint), nodeName: endpoint.nodeName, before: was, after: is},
      } as const,
    ];
  });
}

/**
 * The Services, as `namespace/name`, whose object or slices differ between the two sides: the endpoints of all others, which are most, are
 * the same. Null if all have to be compared.
 */
function changedServices(before: ApiObjects, after: ApiObjects, proxy: ProxyVersion): ReadonlySet<string> | null {
  if (before.endpointSlices === null || after.endpointSlices === null) return null;
  const [old, young] = [new ClusterView(before), new ClusterView(after)];
  const was = new Map((before.services ?? []).map(service => [namespacedName(service.metadata), service]));
  const is = new Map((after.services ?? []).map(service => [namespacedName(service.metadata), service]));
  const isSame = (key: string) => sameJson(was.get(key), is.get(key)) && sameJson(old.slicesOf(key, proxy), young.slicesOf(key, proxy));
  return new Set([...was.keys(), ...is.keys()].filter(key => !isSame(key)));
}

function partOf(api: ApiObjects, services: ReadonlySet<string> | null): ApiObjects {
  return services === null
    ? api
    : {...api, services: (api.services ?? []).filter(service => services.has(namespacedName(service.metadata)))};
}

interface Placed {
  readonly key: string;
  readonly port: ServicePort;
  readonly endpoint: Endpoint;
}

function endpointsOf(api: ApiObjects, proxy: ProxyVersion): readonly Placed[] {
  const view = new ClusterView(api);
  return families.flatMap(family =>
    view
      .entries(family, proxy)
      .flatMap(({port, set}) =>
        set.endpoints.map(endpoint => ({key: `${port.servicePortName} ${port.protocol} ${endpoint.hostPort}`, port, endpoint})),
      ),
  );
}

function stateOf(placed: Placed | undefined): string | null {
  if (placed === undefined) return null;
  const {ready, terminating, serving} = placed.endpoint;
  if (ready) return 'ready';
  return terminating ? (serving ? 'terminating, serving' : 'terminating') : 'not ready';
}

function missing(): never {
  throw new Error('a pair has at least one side');
}
