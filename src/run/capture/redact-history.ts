import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import {noObjects} from '../../model/snapshot.ts';
import type {RecordedHistory, StateChange} from '../../model/state-history.ts';
import type {Redaction} from '../../redact/redaction.ts';

/** Redacts the objects of each change like those of the lists. The names that chains are derived from are learned from them, too. */
export function redactHistory(history: RecordedHistory | null, redaction: Redaction): RecordedHistory | null {
  if (history === null) return null;
  const changes = history.changes.map((change): StateChange => {
    if (change.kind === 'Service') return {...change, before: service(change.before), now: service(change.now)};
    return {...change, before: slice(change.before), now: slice(change.now)};
  });
  const nodes = Object.entries(history.nodes).map(([name, time]) => [redaction.node({name, files: [], read: () => null}).name, time]);
  return {...history, changes, nodes: Object.fromEntries(nodes)};

  function service(object: ServiceObject | null): ServiceObject | null {
    return object === null ? null : (redaction.objects({...noObjects, services: [object]}).services?.[0] ?? null);
  }

  function slice(object: EndpointSliceObject | null): EndpointSliceObject | null {
    return object === null ? null : (redaction.objects({...noObjects, endpointSlices: [object]}).endpointSlices?.[0] ?? null);
  }
}
