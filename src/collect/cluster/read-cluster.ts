import pLimit from 'p-limit';
import {type PodObject, type ServiceObject, selectorText} from '../../model/api-objects.ts';
import type {ServiceName} from '../../model/finding.ts';
import {systemConfigMaps} from '../../model/proxy-config.ts';
import type {ApiObjects, Problem} from '../../model/snapshot.ts';
import type {KubeApi} from '../kube/kube-api.ts';
import type {ObjectOf} from '../objects/api-shapes.ts';
import {ClusterReader, type ClusterScope} from './cluster-reader.ts';

export interface ClusterReading {
  /** Without pods: those are read by `readAgentPods` and `readServicePods`. */
  readonly api: ApiObjects;
  /** What could not be read, with the verb and the resource. */
  readonly problems: readonly Problem[];
  /** The resourceVersion of each list, by its path: a watch can start from there. */
  readonly versions: ReadonlyMap<string, string>;
}

export interface ReadClusterOptions {
  /** Read what kube-proxy's rules depend on besides: its ConfigMaps and the ServiceCIDRs. */
  readonly configMaps?: boolean;
}

/**
 * Reads Services with their slices, Nodes, ServiceCIDRs, and the ConfigMaps of kube-proxy. What may not be read is null and a problem. Rejects with
 * an ApiError when the API server cannot be reached or does not accept the credentials.
 */
export async function readCluster(
  api: KubeApi,
  scope: ClusterScope,
  {configMaps: withConfigMaps = true}: ReadClusterOptions = {},
): Promise<ClusterReading> {
  const reader = new ClusterReader(api);
  const [{services, ...endpoints}, nodes, configMaps, serviceCIDRs, networkPolicies] = await Promise.all([
    readServices(scope, reader),
    readNodes(reader),
    withConfigMaps
      ? readConfigMaps(reader, {
          remedy: `${askForRights('get', 'configmaps of kube-system')} Without it kube-proxy's settings are taken from elsewhere.`,
        })
      : null,
    withConfigMaps ? readServiceCIDRs(reader) : null,
    withConfigMaps ? readNetworkPolicies(scope, reader) : null,
  ]);
  return {
    api: {services, ...endpoints, nodes, pods: null, configMaps, serviceCIDRs, networkPolicies, ...partOf(scope)},
    problems: reader.problems,
    versions: reader.versions,
  };
}

export type ServiceObjects = Pick<ApiObjects, 'services' | 'endpointSlices' | 'endpoints'>;

/** Services and their slices; Endpoints if the API server has no slices. */
export async function readServices(scope: ClusterScope, reader: ClusterReader): Promise<ServiceObjects> {
  let served = true;
  const onNotServed = () => {
    served = false;
  };
  const [services, endpointSlices] = await Promise.all([readServiceObjects(scope, reader), readSlices(scope, reader, onNotServed)]);
  return {
    services,
    endpointSlices,
    endpoints: served ? null : await readNamed(scope, reader, 'endpoints'),
  };
}

/** As `readServices`, without slices. */
export function readServiceObjects(scope: ClusterScope, reader: ClusterReader): Promise<readonly ServiceObject[] | null> {
  return readNamed(scope, reader, 'services');
}

/** Services, or objects that have the name of their Service. */
async function readNamed<Name extends 'services' | 'endpoints'>(
  scope: ClusterScope,
  reader: ClusterReader,
  of: Name,
): Promise<readonly ObjectOf<Name>[] | null> {
  const what = {of, remedy: askForRights('get and list', of)};
  if (scope.kind !== 'services') return joined(places(scope).map(place => reader.list({...what, path: `/api/v1${place}/${of}`})));
  return joined(
    each(scope.services, ({namespace, name}) =>
      reader.get({...what, path: `/api/v1${placeOf(namespace)}/${of}/${encodeURIComponent(name)}`}),
    ),
  );
}

const slicesRoot = '/apis/discovery.k8s.io/v1';

function readSlices(scope: ClusterScope, reader: ClusterReader, onNotServed: () => void): Promise<ApiObjects['endpointSlices']> {
  const what = {
    of: 'endpointSlices' as const,
    remedy: askForRights('list', 'endpointslices.discovery.k8s.io'),
    onNotServed,
  };
  const pathIn = (place: string): string => `${slicesRoot}${place}/endpointslices`;
  if (scope.kind !== 'services') return joined(places(scope).map(place => reader.list({...what, path: pathIn(place)})));
  return joined(
    each(scope.services, ({namespace, name}) => {
      const query = {labelSelector: `kubernetes.io/service-name=${name}`};
      return reader.list({...what, path: pathIn(placeOf(namespace)), query});
    }),
  );
}

export function readNodes(reader: ClusterReader): Promise<ApiObjects['nodes']> {
  return reader.list({of: 'nodes', path: '/api/v1/nodes', remedy: askForRights('list', 'nodes')});
}

/** Those with settings of kube-proxy. */
export function readConfigMaps(
  reader: ClusterReader,
  how: {readonly remedy: string; readonly query?: Readonly<Record<string, string>>},
): Promise<ApiObjects['configMaps']> {
  const what = {...how, of: 'configMaps' as const, isMinor: true};
  return joined(systemConfigMaps.map(name => reader.get({...what, path: `/api/v1/namespaces/kube-system/configmaps/${name}`})));
}

/** Served from 1.33 on. One rule of nftables mode follows from them, and nothing else: that they may not be read is no problem. */
export function readServiceCIDRs(
  reader: ClusterReader,
  query?: Readonly<Record<string, string>>,
): Promise<readonly ObjectOf<'serviceCIDRs'>[] | null> {
  const what = {of: 'serviceCIDRs' as const, remedy: askForRights('list', 'servicecidrs.networking.k8s.io'), isOptional: true};
  const path = '/apis/networking.k8s.io/v1/servicecidrs';
  return reader.list({...what, path, onNotServed: () => {}, query});
}

/** What ST113 alone needs: that they may not be read is no problem. */
function readNetworkPolicies(scope: ClusterScope, reader: ClusterReader): Promise<readonly ObjectOf<'networkPolicies'>[] | null> {
  const what = {of: 'networkPolicies' as const, remedy: askForRights('list', 'networkpolicies.networking.k8s.io'), isOptional: true};
  const within =
    scope.kind === 'services' ? [...new Set(scope.services.map(({namespace}) => namespace))].map(name => placeOf(name)) : places(scope);
  return joined(
    within.map(place => reader.list({...what, path: `/apis/networking.k8s.io/v1${place}/networkpolicies`, onNotServed: () => {}})),
  );
}

/** Null when one of them is: half a list is not the list. */
async function joined<T>(lists: readonly Promise<readonly T[] | null>[]): Promise<readonly T[] | null> {
  const all = await Promise.all(lists);
  return all.some(list => list === null) ? null : all.flatMap(list => list ?? []);
}

const parallel = 8;

function each<T>(services: readonly ServiceName[], read: (service: ServiceName) => Promise<T>): readonly Promise<T>[] {
  const limit = pLimit(parallel);
  return services.map(service => limit(read, service));
}

/** The scope as a part of the path: everything, or one namespace after another. */
function places(scope: Exclude<ClusterScope, {readonly kind: 'services'}>): readonly string[] {
  return scope.kind === 'cluster' ? [''] : scope.namespaces.map(placeOf);
}

function placeOf(namespace: string): string {
  return `/namespaces/${encodeURIComponent(namespace)}`;
}

function askForRights(verbs: string, resource: string): string {
  return `Get the right to ${verbs} ${resource}: "kubectl svc-trace access" prints the Role for it.`;
}

/** What the lists lack, so that missing objects are not taken for deleted ones. */
function partOf(scope: ClusterScope): Pick<ApiObjects, 'namespaces'> {
  if (scope.kind === 'cluster') return {};
  return {namespaces: scope.kind === 'namespaces' ? scope.namespaces : []};
}

export interface ServicePods {
  readonly pods: readonly PodObject[];
  /** The Services, as `namespace/name`, whose pods could be searched. */
  readonly podsOf: ReadonlySet<string>;
}

/** The pods that these Services select. Services whose pods may not be listed are left out: pods only add detail to messages. */
export async function readServicePods(api: KubeApi, services: readonly ServiceObject[]): Promise<ServicePods> {
  const reader = new ClusterReader(api, {anyFailure: true});
  const limit = pLimit(8);
  const podsOf = new Set<string>();
  const lists = services.slice(0, maxServices).map(service =>
    limit(async () => {
      const {metadata} = service;
      const namespace = metadata.namespace ?? 'default';
      const labelSelector = selectorText(service);
      if (labelSelector === '') return [];
      const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`;
      const pods = await reader.list({of: 'pods', path, query: {labelSelector}, remedy: '', isMinor: true});
      if (pods !== null) podsOf.add(`${namespace}/${metadata.name}`);
      return pods ?? [];
    }),
  );
  return {pods: (await Promise.all(lists)).flat(), podsOf};
}

/** Above this number, Services without endpoints are not explained by their pods. */
const maxServices = 50;
