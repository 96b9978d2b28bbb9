import type {EndpointSliceObject, NodeObject, ServiceObject} from '../../model/api-objects.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {allocate} from './allocate.ts';
import {rewriteSlices} from './rewrite-slices.ts';
import {whyRefused} from './why-refused.ts';

/** Objects that are not applied yet. */
interface PlannedObjects {
  readonly services: readonly ServiceObject[];
  readonly endpointSlices: readonly EndpointSliceObject[];
  readonly nodes: readonly NodeObject[];
}

interface AppliedObjects {
  readonly api: ApiObjects;
  /** Assumed values that the API server and its controllers would write, as text. */
  readonly notes: readonly string[];
}

/**
 * The API objects after the planned ones are applied: objects of the same name are replaced, and keep what the API server allocated. A text
 * that says why the API server would refuse one of them, if it would.
 */
export function addManifests(api: ApiObjects, planned: PlannedObjects): AppliedObjects | string {
  const notes: string[] = [];
  const known = api.services ?? [];
  const wanted = lastOfEach(planned.services);
  const services = known.filter(one => !wanted.some(other => isSame(one, other)));
  let slices = api.endpointSlices;
  for (const [index, service] of wanted.entries()) {
    const existing = {before: known.find(one => isSame(one, service)), others: [...services, ...wanted.slice(index + 1)]};
    const why = whyRefused(service, existing);
    if (why !== null) return `the API server would refuse Service ${namespacedName(service.metadata)}: ${why}`;
    const allocated = allocate(service, existing);
    services.push(allocated.service);
    notes.push(...allocated.notes);
    if (existing.before === undefined || slices === null) continue;
    const rewritten = rewriteSlices(existing.before, allocated.service, slices);
    slices = rewritten.slices;
    notes.push(...rewritten.notes);
  }
  return {
    notes,
    api: {
      ...api,
      services,
      endpointSlices: replaced(slices, planned.endpointSlices),
      nodes: planned.nodes.length === 0 ? api.nodes : replaced(api.nodes, planned.nodes),
    },
  };
}

interface Named {
  readonly metadata: {readonly name: string; readonly namespace?: string};
}

function replaced<T extends Named>(before: readonly T[] | null, planned: readonly T[]): readonly T[] {
  return [...(before ?? []).filter(one => !planned.some(other => isSame(one, other))), ...lastOfEach(planned)];
}

/** Of an object that is there twice, the last is applied. */
function lastOfEach<T extends Named>(planned: readonly T[]): readonly T[] {
  return planned.filter((one, index) => !planned.slice(index + 1).some(other => isSame(one, other)));
}

function isSame(a: Named, b: Named): boolean {
  return a.metadata.name === b.metadata.name && (a.metadata.namespace ?? 'default') === (b.metadata.namespace ?? 'default');
}
