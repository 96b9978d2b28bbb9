import type {EndpointSliceObject, ServiceObject} from './api-objects.ts';

/** The changes of Services and EndpointSlices while nodes were read. Times are milliseconds since 1970, all by one clock. */
export interface StateHistory {
  /** From this time on every change is known. */
  readonly since: number;
  /** In the order in which they happened. */
  readonly changes: readonly StateChange[];
}

/** One object before and after; null if it did not exist. */
export type StateChange = ChangeTime & (ObjectChange<'Service', ServiceObject> | ObjectChange<'EndpointSlice', EndpointSliceObject>);

interface ObjectChange<Kind extends string, T> {
  readonly kind: Kind;
  readonly before: T | null;
  readonly now: T | null;
}

interface ChangeTime {
  /** When the change was observed. */
  readonly at: number;
  /** Set if the change was found by reading the object again: it happened after this time, and there may have been others in between. */
  readonly after?: number;
}

/** When a node was read, by the clock of the history. */
export interface ReadTime {
  readonly from: number;
  readonly to: number;
}

/** The history in a bundle: it also contains when each node was read. */
export interface RecordedHistory extends StateHistory {
  readonly nodes: Readonly<Record<string, ReadTime>>;
}

/** The history that a node is analyzed with, beside the current API objects. */
export interface NodeReading extends ReadTime {
  readonly history: StateHistory;
  /** How long kube-proxy may take to apply a change, in milliseconds; 15 s if left out. */
  readonly gracePeriodMs?: number;
}

/** How far the rules of a node lag behind the API. */
export interface NodeLag {
  /** For how long the newest states that the rules match were outdated when the node was read; 0 if they are the latest. */
  readonly seconds: number;
  /** The Service that lags most, `namespace/name`; left out if none does. */
  readonly service?: string;
  /** How many Services changed shortly before the node was read. */
  readonly changedServices: number;
}

/** Seconds that kube-proxy may take to apply a change: the delay of its watch, its minSyncPeriod, and a sync of a large node. */
export const gracePeriod = 15;

/** Seconds for which kube-proxy says that it is healthy while a change waits: twice its `syncPeriod`. */
export const healthTimeout = 60;
