import type {Diagnosis} from '../../diagnosis/diagnosis.ts';
import type {NodeObject, PodObject} from '../../model/api-objects.ts';
import type {Problem} from '../../model/snapshot.ts';
import type {StateHistory} from '../../model/state-history.ts';
import type {RequestedEntries} from '../../collect/node/read-chains.ts';
import {AgentTokens} from '../../collect/agents/agent-tokens.ts';
import {AgentEvaluator} from './agent-evaluator.ts';
import {agentSource} from './agent-source.ts';
import type {ChosenNodes} from '../scope/choose-nodes.ts';
import {clearLeftovers} from './clear-leftovers.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {DumpEvaluator} from './dump-evaluator.ts';
import type {NodeEvaluator} from './node-evaluator.ts';
import {type NodesOfCluster, nodeSource} from './node-source.ts';
import type {NodeAhead} from './open-ahead.ts';
import type {ProxyPodsReading} from '../../collect/cluster/read-agent-pods.ts';

interface FollowedStates {
  /** Those of the Services as far as they are known, where somebody follows them. */
  readonly states?: (() => StateHistory) | undefined;
  /** A node that has a state of before this has not followed. Milliseconds since 1970; left out where the grace period alone counts. */
  readonly notBefore?: number | undefined;
  /** See `DumpEvaluator`. */
  readonly requested?: RequestedEntries | undefined;
  /** See `DumpEvaluator`. */
  readonly ahead?: NodeAhead | undefined;
}

/** The chosen nodes, and how to evaluate them. */
export interface NodeAccess {
  readonly names: readonly string[];
  /** Pods that were read to reach the nodes. They also identify kube-proxy. */
  readonly pods: readonly PodObject[] | null;
  /** Set if only a sample of the nodes was chosen. */
  readonly sample?: ChosenNodes['sample'];
  readonly problems: readonly Problem[];
  evaluatorOf(diagnosis: Diagnosis, followed: FollowedStates): NodeEvaluator;
  /** Removes what a killed run left on the cluster. */
  clear(): Promise<readonly Problem[]>;
}

/** `objects` are the Nodes; null if they may not be listed. `proxyPods` are read if left out, unless agents answer. Throws a CLIError (exit 2) for a node that does not exist. */
export function chooseEvaluator(
  run: ClusterRun,
  objects: readonly NodeObject[] | null,
  proxyPods: ProxyPodsReading | undefined,
): Promise<NodeAccess> {
  return run.flags.agents ? byAgents(run, objects) : byReading(run, {objects, proxyPods});
}

async function byReading(run: ClusterRun, {objects, proxyPods}: Omit<NodesOfCluster, 'api'>): Promise<NodeAccess> {
  const {flags, cluster, signal, progress, clock} = run;
  const {api} = cluster;
  const source = await nodeSource(flags, {api, objects, proxyPods});
  const find = (now: readonly NodeObject[] | null) => nodeSource(flags, {api, objects: now ?? objects, anyFailure: true});
  return {
    ...source,
    names: source.nodes.map(({name}) => name),
    evaluatorOf: (diagnosis, followed) =>
      new DumpEvaluator(source, diagnosis, {...followed, signal, progress, clock, find, counters: flags.counters === true}),
    clear: () => clearLeftovers(source.transport, run),
  };
}

async function byAgents(run: ClusterRun, objects: readonly NodeObject[] | null): Promise<NodeAccess> {
  const {flags, cluster, signal, progress, clock} = run;
  const {api} = cluster;
  const source = await agentSource(flags, {api, objects});
  const find = (now: readonly NodeObject[] | null) => agentSource(flags, {api, objects: now ?? objects, anyFailure: true});
  const tokens = new AgentTokens({api, namespace: source.place.namespace, file: flags['agents-token-file'], now: () => clock.now()});
  // With --wait, nodes are checked again anyway.
  const isPatient = run.wait === undefined;
  return {
    ...source,
    evaluatorOf: (diagnosis, {notBefore}) =>
      new AgentEvaluator(source, {api, tokens, diagnosis, signal, progress, clock, find, isPatient, notBefore}),
    clear: async () => [],
  };
}
