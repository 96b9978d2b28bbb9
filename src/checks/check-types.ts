import type {NodeAnalysis, NodeData} from '../analyze/proxy-mode.ts';
import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import type {ProxyVersion} from '../model/proxy-config.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {Observation, Severity} from '../model/finding.ts';
import type {PodWay} from '../model/node-result.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import type {NodeLag} from '../model/state-history.ts';
import type {TrafficContext} from './traffic-context.ts';

/**
 * One finding code. A check of the API alone runs once; a check of a node runs once a node; a check of traffic, once a Service port and
 * node.
 */
export interface Check {
  readonly code: string;
  readonly name: string;
  readonly severity: Severity;
  /** One line for the list of codes. */
  readonly summary: string;
  /** What to do, in a sentence or two that begin with a verb. */
  readonly remedy: string;
  cluster?(context: ClusterContext): Iterable<Observation>;
  /** What it observes is of this node. */
  node?(context: NodeCheckContext): Iterable<Omit<Observation, 'node'>>;
  /** Compares the nodes that were read. */
  nodes?(ways: readonly PodWay[]): Iterable<Observation>;
  /** Checks the counters of one Service port on one node; used by `top`. */
  traffic?(context: TrafficContext): Iterable<Observation>;
}

export interface ClusterContext {
  readonly api: ApiObjects;
  readonly view: ClusterView;
  /** The version for which Services are checked without a node: the newest one found. */
  readonly proxy: ProxyVersion;
  /** The requested Services. */
  readonly services: readonly ServiceObject[];
  /** They were requested by name. */
  readonly byName: boolean;
}

export interface NodeCheckContext extends NodeAnalysis, Pick<NodeData, 'api' | 'view' | 'node' | 'facts'> {
  /** The Services were followed while the node was read: `view` contains the states that the node matches best. */
  readonly isFollowed?: boolean;
  readonly lag?: NodeLag;
  /** Left out where all Services are asked for. */
  readonly isAsked?: ((port: ServicePort) => boolean) | undefined;
}
