import type {Finding} from './finding.ts';
import type {Family} from './address.ts';
import type {Vxlan} from './node/node-facts.ts';
import type {NodeReport} from './report.ts';
import type {Problem} from './snapshot.ts';
import type {ProxyVersion} from './proxy-config.ts';
import type {PortTrace} from './service-trace.ts';

/** The version of the JSON of an agent's answer. Fields may be added within a version. */
export const nodeResultVersion = 1;

/** The result of an agent: what remains of its node's check after the dumps are dropped. */
export interface AgentResult extends Pick<NodeResult, 'report' | 'findings' | 'proxy'> {
  readonly tool: {readonly name: string; readonly version: string};
  /** What could not be read. */
  readonly problems: readonly Problem[];
  /** When the reading of the node began, by the agent's clock, in milliseconds since 1970. */
  readonly judgedAt: number;
  /** How long the check took, including verification. */
  readonly seconds: number;
  /** The longest time between two checks if nothing changes. */
  readonly intervalSeconds: number;
  /** The API objects that the node was checked against. */
  readonly seen: SeenVersions;
  /** When the API server had last sent something; like `judgedAt`. */
  readonly apiCurrentAt: number;
}

/** The resourceVersions up to which all changes of a kind were known. */
export interface SeenVersions {
  readonly services: string;
  readonly endpointSlices: string;
}

/** How long a result is valid, in seconds: the next one may be late by two intervals, and by the duration of a check on this node. */
export function maxAge({intervalSeconds, seconds}: Pick<AgentResult, 'intervalSeconds' | 'seconds'>): number {
  return 3 * (intervalSeconds + seconds) + 60;
}

/** How far in the future a result may be by its node's own clock, in seconds: further, and the clock was set back. */
export const maxClockSkew = 5;

/** The way between pods of a node and those of others: how large packets may be, in bytes, and the interface that limits them. */
export interface PodWay {
  readonly node: string;
  readonly mtu: number;
  readonly device: string;
  /** By it packets to pods of other nodes leave; null without one. */
  readonly tunnel: Vxlan | null;
  /** All VXLANs that are up. */
  readonly vxlans: readonly Vxlan[];
  /** By family, where packets from its pods go to, and where it takes such; left out where no gateways lead to all other nodes. */
  readonly routed?: readonly RoutedPods[];
}

/** Of a node whose packets to pods of others go to a gateway each: what is not as on most nodes. */
export interface RoutedPods {
  readonly family: Family;
  /** By node, where the gateway is another address than the node's own. */
  readonly gateways: ReadonlyMap<string, string>;
  /** Interfaces with strict reverse path filtering, by their addresses. */
  readonly strict: ReadonlyMap<string, string>;
  readonly own: string;
  /** Its other addresses. */
  readonly others: readonly string[];
  readonly usual: string;
  /** By node, where another interface than the usual one leads to its pods. */
  readonly devices: ReadonlyMap<string, string>;
  /** By node, the gateway on another link than the usual one, unless it is told already. */
  readonly strays: ReadonlyMap<string, {readonly gateway: string; readonly dev: string}>;
}

/** What is kept of a node after its dumps are dropped. */
export interface NodeResult {
  readonly report: NodeReport;
  /** The findings of the node, without those that need only the API objects. */
  readonly findings: readonly Finding[];
  /** Null if nothing is known of the node's kube-proxy. */
  readonly proxy: ProxyVersion | null;
  readonly traces: readonly PortTrace[];
  /** Left out where it is not known. */
  readonly podWay?: PodWay;
  /**
   * Services, `namespace/name`, of which something was found that kube-proxy explains if it wrote between two parts of the dumps: each
   * part fits a state of the Service, but not all the same.
   */
  readonly perhapsTorn?: readonly string[];
}
