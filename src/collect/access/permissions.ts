import type {Permission} from '../../model/access.ts';
import {type TransportName, transports} from '../transports/index.ts';
import {type Asker, collectPermissions} from './agents-permissions.ts';
import {readPermissions} from './read-permissions.ts';

export interface AccessScope {
  readonly transport: TransportName;
  /** The namespace of the Services; null for all. */
  readonly namespace: string | null;
  readonly debugNamespace: string;
  /** The namespace of the agents that are asked instead of reading nodes; left out if nodes are read. */
  readonly agentsNamespace?: string | undefined;
  /** Default: `outside`. */
  readonly asker?: Asker;
}

/** All permissions of a run with this transport, without duplicates: for reading the API, and for the transport. */
export function permissionsFor({
  transport,
  namespace,
  debugNamespace,
  agentsNamespace,
  asker = 'outside',
}: AccessScope): readonly Permission[] {
  if (agentsNamespace !== undefined) return distinct(collectPermissions(namespace, agentsNamespace, asker));
  const entry = transports[transport];
  return distinct([...readPermissions(namespace, entry.usesPods), ...entry.permissions({debugNamespace})]);
}

/** The required ones first. */
function distinct(all: readonly Permission[]): readonly Permission[] {
  const known = new Map<string, Permission>();
  for (const permission of all) {
    const same = known.get(keyOf(permission));
    if (same === undefined || (permission.needed && !same.needed)) known.set(keyOf(permission), permission);
  }
  return [...known.values()].toSorted((a, b) => Number(b.needed) - Number(a.needed));
}

function keyOf({verb, group, resource, subresource = '', namespace, name = ''}: Permission): string {
  return [verb, group, resource, subresource, namespace ?? '', name].join(' ');
}
