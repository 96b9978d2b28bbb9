import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import type {ProxyVersion} from '../expect/cluster/service-ports.ts';
import type {EndpointChange} from '../model/bundle-diff.ts';
import type {Endpoint} from '../model/endpoint.ts';
import {families} from '../model/family.ts';
import type {ServicePort} from '../model/service-port.ts';
import {pairUp} from './diff-keyed.ts';

/** Endpoints of Services that both sides serve: those that came, went, or changed their state. */
export function diffEndpoints(before: ClusterView, after: ClusterView, proxy: ProxyVersion): readonly EndpointChange[] {
  const [old, young] = [endpointsOf(before, proxy), endpointsOf(after, proxy)];
  return pairUp(old, young, ({key}) => key).flatMap(pair => {
    const {port, endpoint} = pair.after ?? pair.before ?? missing();
    const [was, is] = [stateOf(pair.before), stateOf(pair.after)];
    if (was === is) return [];
    return [
      {
        kind: was === null ? 'came' : is === null ? 'went' : 'changed',
        service: {namespace: port.namespace, name: port.service},
        port: `${port.portName}/${port.protocol}`,
        ...{endpoint: endpoint.hostPort, pod: endpoint.pod, nodeName: endpoint.nodeName, before: was, after: is},
      } as const,
    ];
  });
}

interface Placed {
  readonly key: string;
  readonly port: ServicePort;
  readonly endpoint: Endpoint;
}

function endpointsOf(view: ClusterView, proxy: ProxyVersion): readonly Placed[] {
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
