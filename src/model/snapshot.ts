import type {Family} from './address.ts';
import type {RecordedHistory} from './state-history.ts';
import type {
  ConfigMapObject,
  EndpointSliceObject,
  EndpointsObject,
  NodeObject,
  PodObject,
  NetworkPolicyObject,
  ServiceCIDRObject,
  ServiceObject,
} from './api-objects.ts';

/** Everything that was collected: API objects and raw node dumps. All later stages are pure functions of it. */
export interface Snapshot {
  /** The source, for messages: a directory, a file, a context. */
  readonly origin: string;
  readonly api: ApiObjects;
  /** Sorted by name. */
  readonly nodes: readonly NodeDump[];
  /** What could not be read, as text that names the file and what to do. */
  readonly problems: readonly Problem[];
  /** Nodes that could not be read, as far as they are known. */
  readonly unread?: readonly UnreadNode[];
  /** Only the nodes listed here or as unread were requested: the other nodes of the cluster are not missing. */
  readonly chosenNodes?: boolean;
  /** When it was taken (RFC 3339), if known. */
  readonly takenAt?: string;
  /** The version of the API server, if known. */
  readonly serverVersion?: string;
  /** The states of the Services while the nodes were read, if they were followed. */
  readonly history?: RecordedHistory;
}

/** Null means "not read", which is not the same as an empty list. */
export interface ApiObjects {
  readonly services: readonly ServiceObject[] | null;
  readonly endpointSlices: readonly EndpointSliceObject[] | null;
  readonly endpoints: readonly EndpointsObject[] | null;
  readonly nodes: readonly NodeObject[] | null;
  /** There may be Nodes that are not in the list: some could not be read. */
  readonly lacksNodes?: boolean;
  readonly pods: readonly PodObject[] | null;
  readonly configMaps: readonly ConfigMapObject[] | null;
  /** Left out, or null, if they were not read or the API server does not have them. */
  readonly serviceCIDRs?: readonly ServiceCIDRObject[] | null;
  /** Of the namespaces in scope. Left out, or null, if they were not read. */
  readonly networkPolicies?: readonly NetworkPolicyObject[] | null;
  /**
   * The namespaces whose Services were all read; left out if those of all namespaces were. Other objects may exist although they are not in
   * the lists.
   */
  readonly namespaces?: readonly string[];
  /** Services, as `namespace/name`, some of whose endpoints could not be read: their rules are not evaluated. */
  readonly unsure?: ReadonlySet<string>;
  /** The Services, as `namespace/name`, whose pods were searched; left out if all pods were. */
  readonly podsOf?: ReadonlySet<string>;
}

/** Nothing was read. */
export const noObjects: ApiObjects = {services: null, endpointSlices: null, endpoints: null, nodes: null, pods: null, configMaps: null};

/** Whether a snapshot contains only rules, like a file with pasted text. */
export function isRulesAlone({api}: Pick<Snapshot, 'api'>): boolean {
  return api.services === null && api.endpointSlices === null && api.endpoints === null && api.nodes === null;
}

/** The dumps of a family's iptables: that of the program in use, and that of each backend. */
export function iptablesFiles(family: Family): readonly string[] {
  const tool = family === 'IPv4' ? 'iptables' : 'ip6tables';
  return [`${tool}-save`, `${tool}-nft-save`, `${tool}-legacy-save`];
}

/** The files of one node. File names are those of the bundle, such as `iptables-save`. */
export interface NodeDump {
  readonly name: string;
  /** The names of the existing files. */
  readonly files: readonly string[];
  /** How it was reached, as text, if known. */
  readonly via?: string | null;
  /** Missing files, and why, if known. */
  readonly missing?: readonly {readonly file: string; readonly reason: string}[];
  /** The family that no requested Service has, and whose iptables were not read for that reason. */
  readonly leftOut?: Family;
  /** Reads one file; null if there is none. A dump is read when it is needed, and dropped after its node was evaluated. */
  read(file: string): Buffer | null;
}

/** The reason for a file that was read and is empty, such as the dump of a backend that is not in use. */
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
  /** The remedy; left out for a file of a bundle, which has to be captured again. */
  readonly remedy?: string;
  /** The run is complete without it. */
  readonly isMinor?: boolean;
  /** A permanent error: only a user can resolve it, by granting a permission, installing a program or correcting a setting. */
  readonly isPermanent?: true;
  /** The list that is null because of it. */
  readonly list?: ServiceList;
}

const serviceLists = ['services', 'endpointSlices', 'endpoints'] as const;

/** The lists that rules follow from, as `ApiObjects` names them. */
export type ServiceList = (typeof serviceLists)[number];

export function isServiceList(value: unknown): value is ServiceList {
  return serviceLists.some(list => list === value);
}

/** Empty if it was not read. */
export function fileText(node: Pick<NodeDump, 'read'>, file: string): string {
  return node.read(file)?.toString('utf8') ?? '';
}

/** Of a node that the API has. */
export const notInBundle = 'the bundle has no files of this node';
