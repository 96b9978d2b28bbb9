import type {EndpointSliceObject, ServiceObject} from './api-objects.ts';

/** What became of Services and EndpointSlices while nodes were read. Times are milliseconds since 1970, all by one clock. */
export interface StateHistory {
  /** From here on every change is known. */
  readonly since: number;
  /** In the order in which they happened. */
  readonly changes: readonly StateChange[];
}

/** One object as it was and as it is; null where it was not there, or is not any more. */
export type StateChange = ChangeTime & (ObjectChange<'Service', ServiceObject> | ObjectChange<'EndpointSlice', EndpointSliceObject>);

interface ObjectChange<Kind extends string, T> {
  readonly kind: Kind;
  readonly before: T | null;
  readonly now: T | null;
}

interface ChangeTime {
  /** When it was noticed. */
  readonly at: number;
  /** Set where it was noticed by reading the object again: it happened after this, and there may have been others in between. */
  readonly after?: number;
}

/** When a node was read, by the clock of the history. */
export interface ReadTime {
  readonly from: number;
  readonly to: number;
}

/** What a bundle holds of it: also when each node was read. */
export interface RecordedHistory extends StateHistory {
  readonly nodes: Readonly<Record<string, ReadTime>>;
}

/** What a node is analyzed by, beside the API objects as they are. */
export interface NodeReading extends ReadTime {
  readonly history: StateHistory;
  /** How long kube-proxy may take to follow a change, in milliseconds; 15 s where it is left out. */
  readonly gracePeriodMs?: number;
}

/** How far the rules of a node are behind the API. */
export interface NodeLag {
  /** For how long the newest states that the rules fit were outdated when the node was read; 0 where they are the latest. */
  readonly seconds: number;
  /** The Service that is furthest behind, `namespace/name`; left out where none is behind. */
  readonly service?: string;
  /** How many Services changed shortly before the node was read. */
  readonly changedServices: number;
}

/** The Services, `namespace/name`, that a change concerns: a slice can move from one to another. */
export function servicesOf(change: StateChange): readonly string[] {
  const {before, now} = change;
  const names =
    change.kind === 'Service'
      ? [before, now].flatMap(object => (object === null ? [] : [`${object.metadata.namespace ?? 'default'}/${object.metadata.name}`]))
      : [change.before, change.now].flatMap(slice => sliceService(slice) ?? []);
  return [...new Set(names)];
}

/** The Service that a slice names, `namespace/name`. */
export function sliceService(slice: EndpointSliceObject | null): string | null {
  const name = slice?.metadata.labels?.['kubernetes.io/service-name'];
  return name === undefined || name === '' ? null : `${slice?.metadata.namespace ?? 'default'}/${name}`;
}
