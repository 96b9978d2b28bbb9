import {Errors} from '@oclif/core';
import type {ClusterScope} from '../collect/cluster/cluster-scope.ts';
import {type ClusterReading, type ReadClusterOptions, readCluster} from '../collect/cluster/read-cluster.ts';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import {escapeText} from '../render/escape.ts';
import {type Selection, type SelectionInput, selectServices} from './scope/select-services.ts';

interface AskedCluster extends ClusterReading {
  readonly selection: Selection;
}

/**
 * Reads the requested objects. Throws a CLIError: exit 2 for a Service that does not exist, with the nearest names; exit 3 if Services may
 * not be read, because then nothing can be checked.
 */
export async function readAsked(
  api: KubeApi,
  scope: ClusterScope,
  {configMaps = true, ...input}: SelectionInput & ReadClusterOptions,
): Promise<AskedCluster> {
  const reading = await readCluster(api, scope, {configMaps});
  const {services} = reading.api;
  if (services === null) {
    const problem = reading.problems.find(({list}) => list === 'services');
    throw new Errors.CLIError(escapeText(problem?.message ?? 'the Services could not be read'), {exit: 3});
  }
  const known = scope.kind === 'services' && services.length < scope.services.length ? await allServices(api, scope) : services;
  const selection = selectServices(input, {...reading.api, services: known});
  return {...reading, selection};
}

/** For suggestions: the Services that the user may list. */
async function allServices(api: KubeApi, {services}: Extract<ClusterScope, {readonly kind: 'services'}>) {
  const everywhere = await readCluster(api, {kind: 'cluster'});
  if (everywhere.api.services !== null) return everywhere.api.services;
  const namespaces = [...new Set(services.map(({namespace}) => namespace))];
  return (await readCluster(api, {kind: 'namespaces', namespaces})).api.services ?? [];
}
