import type {ClusterScope} from '../../collect/cluster/cluster-scope.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {parseServiceName, type SelectionInput} from './select-services.ts';

/**
 * What has to be read for the Services that are asked for: one Service and its slices where it is named, a namespace where that is
 * meant, and all where no narrower answer is right.
 */
export function askedScope(input: SelectionInput): ClusterScope {
  const named = input.names.map(name => parseServiceName(name, input));
  const placed = named.filter((service): service is ServiceName => service.namespace !== undefined);
  if (placed.length < named.length) return {kind: 'cluster'};
  if (placed.length > maxNamedServices) return {kind: 'namespaces', namespaces: [...new Set(placed.map(({namespace}) => namespace))]};
  if (placed.length > 0) return {kind: 'services', services: placed};
  if (input.allNamespaces || input.namespace === undefined) return {kind: 'cluster'};
  return {kind: 'namespaces', namespaces: [input.namespace]};
}

/** What a run on a cluster asks for. Without -n or -A it is the namespace of the context. */
export function askedInput({flags, names, cluster}: Pick<ClusterRun, 'flags' | 'names' | 'cluster'>): SelectionInput {
  return {names, namespace: cluster.namespace, allNamespaces: flags['all-namespaces'] ?? false, selector: flags.selector};
}

/** More Services than this are read by the lists of their namespaces. */
const maxNamedServices = 20;
