import {type ClusterScope, ClusterReader} from '../../collect/cluster/cluster-reader.ts';
import {readCluster, type ReadClusterOptions, readServicePods, readServices, type ServicePods} from '../../collect/cluster/read-cluster.ts';
import {ApiError, type KubeApi} from '../../collect/kube/kube-api.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {refuseNamesWithSelector, type SelectionInput, selectionOf, selectServices, wantedServices} from './select-services.ts';
import {notRead} from '../wrong-use.ts';
import type {PodObject, ServiceObject} from '../../model/api-objects.ts';
import {sliceService} from '../../model/endpoint.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';

/**
 * What must be read for the requested Services: one Service and its slices if it is named, one namespace, or everything if no narrower
 * scope gives the right answer.
 */
export function askedScope(input: SelectionInput): ClusterScope {
  const named = wantedServices(input);
  const placed = named.filter((service): service is ServiceName => service.namespace !== undefined);
  if (placed.length < named.length) return {kind: 'cluster'};
  if (placed.length > maxNamedServices) return {kind: 'namespaces', namespaces: [...new Set(placed.map(({namespace}) => namespace))]};
  if (placed.length > 0) return {kind: 'services', services: placed};
  if (input.allNamespaces || input.namespace === undefined) return {kind: 'cluster'};
  return {kind: 'namespaces', namespaces: input.namespace.split(',')};
}

/**
 * The scope of a run on a cluster. Without -n or -A it is the namespace of the context. Throws a CLIError (exit 2) for what is refused
 * before anything is read.
 */
export function askedInput({flags, names, cluster}: Pick<ClusterRun, 'flags' | 'names' | 'cluster'>): SelectionInput {
  refuseNamesWithSelector({names, selector: flags.selector});
  return selectionOf(names, {...flags, namespace: cluster.namespace});
}

/** Above this number of Services, the lists of their namespaces are read instead. */
const maxNamedServices = 20;

/**
 * Reads the requested objects. Throws a CLIError: exit 2 for a Service that does not exist, with the nearest names; exit 3 if Services may
 * not be read, because then nothing can be checked.
 */
export async function readAsked(api: KubeApi, scope: ClusterScope, {configMaps = true, ...input}: SelectionInput & ReadClusterOptions) {
  const reading = await readCluster(api, scope, {configMaps});
  const {services} = reading.api;
  if (services === null) {
    const problem = reading.problems.find(({list}) => list === 'services');
    throw notRead(problem?.message ?? 'the Services could not be read');
  }
  const known = (await isMistyped(api, scope, services.length)) ? await allServices(api, scope) : services;
  const selection = selectServices(input, {...reading.api, services: known});
  return {...reading, selection};
}

/** Some of the Services, or the only namespace, may not exist. */
async function isMistyped(api: KubeApi, scope: ClusterScope, count: number): Promise<boolean> {
  if (scope.kind === 'services') return count < scope.services.length;
  const [name] = scope.kind === 'namespaces' && scope.namespaces.length === 1 && count === 0 ? scope.namespaces : [];
  if (name === undefined) return false;
  // Who may not get the namespace sees the nearest name, if there is one.
  return api.get(`/api/v1/namespaces/${encodeURIComponent(name)}`, {}, {once: true}).then(
    () => false,
    error => {
      if (error instanceof ApiError) return true;
      throw error;
    },
  );
}

/** For suggestions: the Services that the user may list. */
async function allServices(api: KubeApi, scope: ClusterScope) {
  const everywhere = await readCluster(api, {kind: 'cluster'});
  if (everywhere.api.services !== null) return everywhere.api.services;
  const namespaces = scope.kind === 'services' ? [...new Set(scope.services.map(({namespace}) => namespace))] : [];
  return (await readCluster(api, {kind: 'namespaces', namespaces})).api.services ?? [];
}

interface ReadingAgain {
  readonly api: KubeApi;
  /** The API objects read before. */
  readonly scope: ClusterScope;
  /** The objects that nodes are evaluated against now. */
  readonly before: ApiObjects;
  readonly signal: AbortSignal;
}

/**
 * Only objects that can have changed: of all Services, because that shows more; without permission for these, of the Services read before.
 */
export async function readAllAgain(reading: ReadingAgain): Promise<ApiObjects> {
  const {api, scope, before, signal} = reading;
  const {namespaces, ...rest} = before;
  const all = await unlessAborted(readServices({kind: 'cluster'}, new ClusterReader(api, {anyFailure: true})), signal);
  if (isThere(all)) return {...rest, ...all};
  return scope.kind === 'cluster' || namespaces === undefined ? before : readAsBefore(reading);
}

/** The same Services as before; the previous objects if they cannot be read now. */
export async function readAsBefore({api, scope, before, signal}: ReadingAgain): Promise<ApiObjects> {
  const asBefore = await unlessAborted(readServices(scope, new ClusterReader(api, {anyFailure: true})), signal);
  return isThere(asBefore) ? {...before, ...asBefore} : before;
}

/** Without slices or Endpoints no node can be evaluated. */
export function isThere({services, endpointSlices, endpoints}: Pick<ApiObjects, 'services' | 'endpointSlices' | 'endpoints'>): boolean {
  return services !== null && (endpointSlices !== null || endpoints !== null);
}

/** The pods of the Services without endpoints: only for these do pods show more than slices. */
export function podsWithoutEndpoints(api: KubeApi, services: readonly ServiceObject[], objects: EndpointObjects): Promise<ServicePods> {
  const withSome = withEndpoints(objects);
  return readServicePods(
    api,
    services.filter(({metadata}) => !withSome.has(namespacedName(metadata))),
  );
}

/**
 * The pods of nodes with errors, to tell how many are hit: by node, those of the first nodes alone. A node whose pods may not be listed is
 * left out: its pods only add detail to messages.
 */
export async function podsOnNodes(api: KubeApi, nodes: readonly string[]): Promise<ReadonlyMap<string, readonly PodObject[]>> {
  const reader = new ClusterReader(api, {anyFailure: true});
  const lists = nodes.slice(0, maxNodes).map(async (node): Promise<readonly (readonly [string, readonly PodObject[]])[]> => {
    const query = {fieldSelector: `spec.nodeName=${node}`};
    const pods = await reader.list({of: 'pods', path: '/api/v1/pods', query, remedy: '', isMinor: true});
    return pods === null ? [] : [[node, pods]];
  });
  return new Map((await Promise.all(lists)).flat());
}

const maxNodes = 20;

type EndpointObjects = Pick<ApiObjects, 'endpointSlices' | 'endpoints'>;

function withEndpoints({endpointSlices, endpoints}: EndpointObjects): ReadonlySet<string> {
  return new Set([
    ...(endpointSlices ?? []).flatMap(slice => ((slice.endpoints ?? []).length > 0 ? (sliceService(slice) ?? []) : [])),
    ...(endpoints ?? []).filter(({subsets}) => (subsets ?? []).length > 0).map(({metadata}) => namespacedName(metadata)),
  ]);
}
