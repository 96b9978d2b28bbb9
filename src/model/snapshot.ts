import type {RecordedHistory} from './state-history.ts';
import type {
  ConfigMapObject,
  EndpointSliceObject,
  EndpointsObject,
  NodeObject,
  PodObject,
  ServiceCIDRObject,
  ServiceObject,
} from './api-objects.ts';

/** All that was collected: API objects and raw node dumps. Everything after it is a pure function of it. */
export interface Snapshot {
  /** Where it came from, for messages: a directory, a file, a context. */
  readonly origin: string;
  readonly api: ApiObjects;
  /** In the order of their names. */
  readonly nodes: readonly NodeDump[];
  /** What could not be read, in words that name the file and what to do. */
  readonly problems: readonly Problem[];
  /** Nodes that were to be read and could not be, as far as that is known. */
  readonly unread?: readonly UnreadNode[];
  /** Only the nodes that are here or unread were asked for: the others of the cluster are not missing. */
  readonly chosenNodes?: boolean;
  /** When it was taken (RFC 3339), where that is known. */
  readonly takenAt?: string;
  /** The states of the Services while the nodes were read, where they were followed. */
  readonly history?: RecordedHistory;
}

/** Null means "not seen", which is not the same as an empty list. */
export interface ApiObjects {
  readonly services: readonly ServiceObject[] | null;
  readonly endpointSlices: readonly EndpointSliceObject[] | null;
  readonly endpoints: readonly EndpointsObject[] | null;
  readonly nodes: readonly NodeObject[] | null;
  readonly pods: readonly PodObject[] | null;
  readonly configMaps: readonly ConfigMapObject[] | null;
  /** Left out, or null, where they were not read or the API server does not have them. */
  readonly serviceCIDRs?: readonly ServiceCIDRObject[] | null;
  /** The namespaces whose Services were all read; left out when those of all namespaces were. What is not in the lists may be there. */
  readonly namespaces?: readonly string[];
  /** Services, as `namespace/name`, of whose endpoints some could not be read: nothing is said of what is programmed for them. */
  readonly unsure?: ReadonlySet<string>;
  /** The Services, as `namespace/name`, whose pods were looked for; left out when all pods were. */
  readonly podsOf?: ReadonlySet<string>;
}

/** What one node gave. A file name is that of the bundle, such as `iptables-save`. */
export interface NodeDump {
  readonly name: string;
  /** The names of the files that are there. */
  readonly files: readonly string[];
  /** How it was reached, in words, as far as that is known. */
  readonly via?: string | null;
  /** Files that are not there, and why, as far as that is known. */
  readonly missing?: readonly {readonly file: string; readonly reason: string}[];
  /** Reads one file; null when it is not there. A dump is read when it is needed and dropped when the node was evaluated. */
  read(file: string): Buffer | null;
}

/** The reason for a file that was read and holds nothing, such as the dump of a backend that is not in use. */
export const nothingInIt = 'there is nothing in it';

/** A node without the data that an evaluation needs. */
export interface UnreadNode {
  readonly name: string;
  readonly reason: string;
  readonly remedy: string;
  /** As of a Problem. */
  readonly isPermanent?: true;
}

export interface Problem {
  readonly node?: string;
  readonly message: string;
  /** What to do; left out for a file of a bundle, which is to be written again. */
  readonly remedy?: string;
  /** The run is complete without it. */
  readonly isMinor?: boolean;
  /** Time does not change it, only somebody who gives a right, installs a program or corrects a setting. */
  readonly isPermanent?: true;
}
