import type {EndpointSliceObject, NodeObject, ServiceObject} from '../../model/api-objects.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {allocate} from './allocate.ts';

/** Objects that are not applied yet. */
interface PlannedObjects {
  readonly services: readonly ServiceObject[];
  readonly endpointSlices: readonly EndpointSliceObject[];
  readonly nodes: readonly NodeObject[];
}

interface AppliedObjects {
  readonly api: ApiObjects;
  /** Assumed values that the API server would allocate, as text. */
  readonly notes: readonly string[];
}

/** The API objects after the planned ones are applied: objects of the same name are replaced, and keep what the API server allocated. */
export function addManifests(api: ApiObjects, planned: PlannedObjects): AppliedObjects {
  const notes: string[] = [];
  const known = api.services ?? [];
  const kept = known.filter(one => !planned.services.some(other => isSame(one, other)));
  const services = [...kept];
  for (const service of planned.services) {
    const allocated = allocate(service, {before: known.find(one => isSame(one, service)), others: services});
    services.push(allocated.service);
    notes.push(...allocated.notes);
  }
  return {
    notes,
    api: {
      ...api,
      services,
      endpointSlices: replaced(api.endpointSlices, planned.endpointSlices),
      nodes: planned.nodes.length === 0 ? api.nodes : replaced(api.nodes, planned.nodes),
    },
  };
}

interface Named {
  readonly metadata: {readonly name: string; readonly namespace?: string};
}

function replaced<T extends Named>(before: readonly T[] | null, planned: readonly T[]): readonly T[] {
  return [...(before ?? []).filter(one => !planned.some(other => isSame(one, other))), ...planned];
}

function isSame(a: Named, b: Named): boolean {
  return a.metadata.name === b.metadata.name && (a.metadata.namespace ?? 'default') === (b.metadata.namespace ?? 'default');
}
