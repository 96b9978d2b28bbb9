import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import type {ProxyVersion} from '../expect/cluster/service-ports.ts';
import type {NodeAnalysis} from '../analyze/analyze-node.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {Observation, Severity} from '../model/finding.ts';
import type {NodeFacts} from '../model/node-facts.ts';
import type {ApiObjects, NodeDump} from '../model/snapshot.ts';
import type {TrafficContext} from './traffic-context.ts';
import type {NodeLag} from '../model/state-history.ts';

/** One finding code. A check that looks at the API alone runs once; one that looks at a node runs once a node; one of traffic, once a Service port and node. */
export interface Check<Code extends string = string> {
  readonly code: Code;
  readonly name: string;
  readonly severity: Severity;
  /** One line for the list of codes. */
  readonly summary: string;
  /** What to do, in a sentence or two that begin with a verb. */
  readonly remedy: string;
  cluster?(context: ClusterContext): Iterable<Observation>;
  node?(context: NodeCheckContext): Iterable<Observation>;
  /** Of what was counted of one Service port on one node, which `top` does. */
  traffic?(context: TrafficContext): Iterable<Observation>;
}

export interface ClusterContext {
  readonly api: ApiObjects;
  readonly view: ClusterView;
  /** The version by which Services are checked without a node: the newest one found. */
  readonly proxy: ProxyVersion;
  /** The Services that were asked for. */
  readonly services: readonly ServiceObject[];
  /** They were asked for by name. */
  readonly byName: boolean;
}

export interface NodeCheckContext extends NodeAnalysis {
  readonly api: ApiObjects;
  readonly view: ClusterView;
  readonly node: NodeDump;
  readonly facts: NodeFacts;
  /** The Services were followed while the node was read: `view` holds the states that the node fits best. */
  readonly isFollowed?: boolean;
  readonly lag?: NodeLag;
}
