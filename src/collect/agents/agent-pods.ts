import type {PodObject} from '../../model/api-objects.ts';
import {podShape} from '../objects/api-shapes.ts';
import type {ClusterReader} from '../cluster/cluster-reader.ts';
import {podsByNode} from '../cluster/read-agent-pods.ts';
import {type AgentPlace, defaultAgentPort} from './agent-place.ts';

/** The agents' pods, by node name; null if they may not be listed. */
export async function readAgents(reader: ClusterReader, {namespace, selector}: AgentPlace): Promise<ReadonlyMap<string, PodObject> | null> {
  const pods = await reader.list<PodObject>({
    path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`,
    query: {labelSelector: selector},
    shape: podShape,
    remedy: `Get the right to list pods of ${namespace} ("kubectl svc-trace access --agents" prints the Role for it).`,
  });
  if (pods === null) return null;
  const best = [...podsByNode(pods)].flatMap(([node, own]) => {
    const [first] = own.toSorted((a, b) => rankOf(a) - rankOf(b));
    return first === undefined ? [] : [[node, first] as const];
  });
  return new Map(best);
}

/** During an update there are briefly two: the old one and the new one. */
function rankOf({metadata, status}: PodObject): number {
  if (metadata.deletionTimestamp !== undefined) return 3;
  if (status?.phase !== 'Running') return 2;
  return status.conditions?.some(({type, status: value}) => type === 'Ready' && value === 'True') ? 0 : 1;
}

export interface AgentPort {
  /** `http` if the port has that name: agents with --insecure-http, and agents of older versions. */
  readonly scheme: 'http' | 'https';
  readonly port: number;
}

/** The first port that the pod has. */
export function agentPort({spec}: PodObject): AgentPort {
  const [first] = spec?.containers?.flatMap(({ports}) => ports ?? []) ?? [];
  return {scheme: first?.name === 'http' ? 'http' : 'https', port: first?.containerPort ?? defaultAgentPort};
}
