import type {AgentPlace} from '../../collect/agents/agent-tokens.ts';
import {readAgents} from '../../collect/cluster/read-agent-pods.ts';
import {ClusterReader} from '../../collect/cluster/cluster-reader.ts';
import type {KubeApi} from '../../collect/kube/kube-api.ts';
import type {NodeObject, PodObject} from '../../model/api-objects.ts';
import {agentPlace, type ParsedAgentsFlags} from '../options/connection.ts';
import {chooseNodes, type NodeChoice} from '../scope/choose-nodes.ts';
import {nodeTimeout, type NodeSource} from './node-source.ts';
import type {ParsedTransportFlags} from '../options/transport.ts';

/** The nodes whose agents are asked. */
export interface AgentSource extends Pick<NodeSource, 'concurrency' | 'timeoutMs' | 'sample' | 'problems'> {
  /** In order. */
  readonly names: readonly string[];
  readonly place: AgentPlace;
  /** By node name; null if the agents' pods could not be listed. */
  readonly agents: ReadonlyMap<string, PodObject> | null;
  /** No pod is needed to find kube-proxy's settings: the agent knows them. */
  readonly pods: null;
}

/** The chosen nodes and their agents. Without permission to list Nodes, the nodes are those that agents run on, or `--node`. */
export async function agentSource(
  flags: ParsedAgentsFlags & NodeChoice & Pick<ParsedTransportFlags, 'concurrency' | 'node-timeout'>,
  {api, objects, anyFailure}: {readonly api: KubeApi; readonly objects: readonly NodeObject[] | null; readonly anyFailure?: boolean},
): Promise<AgentSource> {
  const timeoutMs = nodeTimeout(flags['node-timeout']);
  const place = agentPlace(flags);
  const reader = new ClusterReader(api, {anyFailure});
  const agents = await readAgents(reader, place);
  const known = objects ?? [...new Set(flags.node ?? agents?.keys() ?? [])].map(name => ({metadata: {name}}));
  const {names, ...sample} = chooseNodes(flags, known);
  return {names, place, agents, concurrency: flags.concurrency, timeoutMs, ...sample, problems: reader.problems, pods: null};
}
