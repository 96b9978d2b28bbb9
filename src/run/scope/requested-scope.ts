import type {ClusterScope} from '../../collect/cluster/cluster-scope.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {refuseNamesWithSelector, type SelectionInput, wantedServices} from './select-services.ts';

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
