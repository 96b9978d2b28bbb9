import type {EndpointSliceObject, ObjectMeta, ServiceObject, ServiceSpec, SliceEndpoint} from '../src/model/api-objects.ts';
import type {ApiObjects, NodeDump} from '../src/model/snapshot.ts';

type Status = NonNullable<ServiceObject['status']>;
export type LoadBalancerIngress = NonNullable<NonNullable<Status['loadBalancer']>['ingress']>[number];

/** A Service `namespace/name` as the API server holds it. `ingress` is its `status.loadBalancer.ingress`. */
export function service(
  name: string,
  spec: ServiceSpec,
  rest: {readonly ingress?: readonly LoadBalancerIngress[]; readonly metadata?: Partial<ObjectMeta>} = {},
): ServiceObject {
  const status = rest.ingress === undefined ? {} : {status: {loadBalancer: {ingress: rest.ingress}}};
  return {metadata: {...named(name), ...rest.metadata}, spec: {type: 'ClusterIP', ...spec}, ...status};
}

export interface SliceSetup {
  /** The name of the slice; that of the Service with `-1` when it is not given. */
  readonly name?: string;
  readonly addressType?: string;
  readonly ports?: EndpointSliceObject['ports'];
  readonly labels?: Readonly<Record<string, string>>;
}

/** An EndpointSlice of the Service `namespace/name`, with one unnamed TCP port 8080 unless said otherwise. */
export function slice(owner: string, endpoints: readonly SliceEndpoint[], setup: SliceSetup = {}): EndpointSliceObject {
  const {namespace, name} = named(owner);
  return {
    metadata: {
      namespace,
      name: setup.name ?? `${name}-1`,
      labels: {'kubernetes.io/service-name': name, ...setup.labels},
    },
    addressType: setup.addressType ?? (endpoints[0]?.addresses?.[0]?.includes(':') ? 'IPv6' : 'IPv4'),
    ports: setup.ports === undefined ? [{name: '', port: 8080, protocol: 'TCP'}] : setup.ports,
    endpoints,
  };
}

export interface EndpointSetup {
  readonly ready?: boolean;
  readonly serving?: boolean;
  readonly terminating?: boolean;
  readonly zones?: readonly string[];
  readonly nodes?: readonly string[];
}

/** One endpoint; ready unless said otherwise, and without hints. */
export function endpoint(address: string, nodeName?: string, {zones, nodes, ...conditions}: EndpointSetup = {}): SliceEndpoint {
  const asHints = (names: readonly string[]) => names.map(name => ({name}));
  const hints = {...(zones && {forZones: asHints(zones)}), ...(nodes && {forNodes: asHints(nodes)})};
  return {
    addresses: [address],
    conditions,
    ...(nodeName === undefined ? {} : {nodeName}),
    ...(zones === undefined && nodes === undefined ? {} : {hints}),
  };
}

/** Not ready, but still serving while it terminates. */
export const leaving: EndpointSetup = {ready: false, serving: true, terminating: true};

/** Not ready and not serving any more. */
export const gone: EndpointSetup = {ready: false, serving: false, terminating: true};

export function apiObjects(objects: Partial<ApiObjects>): ApiObjects {
  return {services: null, endpointSlices: null, endpoints: null, nodes: null, pods: null, configMaps: null, ...objects};
}

/** The dump of a node that consists of these files. */
export function nodeDump(name: string, files: Readonly<Record<string, string>> = {}): NodeDump {
  return {name, files: Object.keys(files), read: file => (files[file] === undefined ? null : Buffer.from(files[file]))};
}

function named(text: string): {namespace: string; name: string} {
  const [namespace = '', name = ''] = text.split('/');
  return {namespace, name};
}
