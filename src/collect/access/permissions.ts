import type {Permission} from '../../model/access.ts';
import {type TransportName, transports} from '../transports/index.ts';
import {readPermissions} from './read-permissions.ts';

export interface AccessScope {
  readonly transport: TransportName;
  /** Of the Services; null for all. */
  readonly namespace: string | null;
  readonly debugNamespace: string;
}

/** All that a run asks of the API server with this transport, each once: what is read, and what the transport needs. */
export function permissionsFor({transport, namespace, debugNamespace}: AccessScope): readonly Permission[] {
  const entry = transports[transport];
  const all = [...readPermissions(namespace, entry.usesPods), ...entry.permissions({debugNamespace})];
  const distinct = new Map<string, Permission>();
  for (const permission of all) {
    const known = distinct.get(keyOf(permission));
    if (known === undefined || (permission.needed && !known.needed)) distinct.set(keyOf(permission), permission);
  }
  return [...distinct.values()].toSorted((a, b) => Number(b.needed) - Number(a.needed));
}

function keyOf({verb, group, resource, subresource = '', namespace, name = ''}: Permission): string {
  return [verb, group, resource, subresource, namespace ?? '', name].join(' ');
}
