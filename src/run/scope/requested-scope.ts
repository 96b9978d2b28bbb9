import {Errors} from '@oclif/core';
import type {ClusterScope} from '../../collect/cluster/cluster-reader.ts';
import {type ClusterReading, readCluster, type ReadClusterOptions} from '../../collect/cluster/read-cluster.ts';
import {ApiError, type KubeApi} from '../../collect/kube/kube-api.ts';
import type {ServiceName} from '../../model/finding.ts';
import {escapeText} from '../../render/terminal-text.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {refuseNamesWithSelector, type Selection, type SelectionInput, selectServices, wantedServices} from './select-services.ts';

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
  return {names, namespace: cluster.namespace, allNamespaces: flags['all-namespaces'] ?? false, selector: flags.selector};
}

/** Above this number of Services, the lists of their namespaces are read instead. */
const maxNamedServices = 20;

/**
 * Reads the requested objects. Throws a CLIError: exit 2 for a Service that does not exist, with the nearest names; exit 3 if Services may
 * not be read, because then nothing can be checked.
 */
export async function readAsked(
  api: KubeApi,
  scope: ClusterScope,
  {configMaps = true, ...input}: SelectionInput & ReadClusterOptions,
): Promise<ClusterReading & {readonly selection: Selection}> {
  const reading = await readCluster(api, scope, {configMaps});
  const {services} = reading.api;
  if (services === null) {
    const problem = reading.problems.find(({list}) => list === 'services');
    throw new Errors.CLIError(escapeText(problem?.message ?? 'the Services could not be read'), {exit: 3});
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
