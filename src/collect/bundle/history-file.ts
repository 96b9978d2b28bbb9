import type {ReadTime, RecordedHistory, StateChange} from '../../model/state-history.ts';
import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import type {Problem} from '../../model/snapshot.ts';
import {parseJson} from '../../parse/attempt.ts';
import {endpointSliceShape, serviceShape} from '../objects/api-shapes.ts';
import {usableItems} from '../objects/usable-items.ts';

/** The states that Services had while the nodes were read. */
export const historyFile = 'api/history.json';

export function historyText(history: RecordedHistory): Buffer {
  return Buffer.from(`${JSON.stringify(history, null, 1)}\n`);
}

/** One invalid change makes the whole history unusable: with a state left out, a healthy node would have findings. */
export function readHistory(content: Buffer | null): {readonly history?: RecordedHistory; readonly problems: readonly Problem[]} {
  if (content === null) return {problems: []};
  const history = parse(content.toString('utf8'));
  return history === null
    ? {problems: [{message: `${historyFile} cannot be read: states of Services are not known`}]}
    : {history, problems: []};
}

function parse(text: string): RecordedHistory | null {
  try {
    const {since, changes, nodes} = parseJson(text) as Readonly<Record<string, unknown>>;
    if (typeof since !== 'number' || !Array.isArray(changes) || typeof nodes !== 'object' || nodes === null) return null;
    if (!changes.every(isChange) || !Object.values(nodes).every(isTime)) return null;
    return {since, changes, nodes: nodes as RecordedHistory['nodes']};
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return null;
    throw error;
  }
}

function isChange(value: unknown): value is StateChange {
  const {kind, at, after, before, now} = (value ?? {}) as Readonly<Record<string, unknown>>;
  if ((kind !== 'Service' && kind !== 'EndpointSlice') || typeof at !== 'number') return false;
  if (after !== undefined && typeof after !== 'number') return false;
  return [before, now].every(object => object === null || isUsable(kind, object)) && (before !== null || now !== null);
}

function isUsable(kind: StateChange['kind'], object: unknown): boolean {
  const {items} =
    kind === 'Service'
      ? usableItems<ServiceObject>(historyFile, [object], serviceShape)
      : usableItems<EndpointSliceObject>(historyFile, [object], endpointSliceShape);
  return items.length === 1;
}

function isTime(value: unknown): value is ReadTime {
  const {from, to} = (value ?? {}) as Readonly<Record<string, unknown>>;
  return typeof from === 'number' && typeof to === 'number';
}
