import {largest} from '../model/lists.ts';
import type {NodeObject, PodObject, ObjectMeta} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {once} from '../model/once.ts';

/** The Node with this name; undefined if it does not exist or Nodes were not read. */
export function nodeObject({nodes}: ApiObjects, name: string): NodeObject | undefined {
  return nodes === null ? undefined : nodesByName(nodes).get(name);
}

/** The addresses by which other nodes reach it. */
export function internalIPs({status}: NodeObject): readonly string[] {
  return (status?.addresses ?? []).flatMap(({type, address}) => (type === 'InternalIP' && address !== undefined ? [address] : []));
}

/** The names of Nodes by all addresses that they have. */
export const nodeNamesByAddress = once(
  ({nodes}: ApiObjects): ReadonlyMap<string | undefined, string> =>
    new Map((nodes ?? []).flatMap(({metadata: {name}, status}) => (status?.addresses ?? []).map(({address}) => [address, name] as const))),
);

/** Whether the cluster has no Node of this name; false where that is not known. */
export function isNoNode(api: ApiObjects, name: string): boolean {
  return api.nodes !== null && api.lacksNodes !== true && nodeObject(api, name) === undefined;
}

/** The pods that run on a node, in the order of the API's list. */
export function podsOnNode({pods}: ApiObjects, node: string): readonly PodObject[] {
  return pods === null ? [] : (podsByNode(pods).get(node) ?? []);
}

const nodesByName = once((nodes: readonly NodeObject[]) => new Map(nodes.toReversed().map(node => [node.metadata.name, node])));

const podsByNode = once((pods: readonly PodObject[]) => Map.groupBy(pods, ({spec}) => spec?.nodeName));

/** When an object was last written, by what the API server and the controllers note in it, in milliseconds since 1970; 0 when they do not. */
export function writtenAt({creationTimestamp, annotations, managedFields}: ObjectMeta): number {
  const times = [
    creationTimestamp,
    annotations?.['endpoints.kubernetes.io/last-change-trigger-time'],
    // What kubectl prints is without them.
    ...(managedFields ?? []).map(({time}) => time),
  ];
  return Math.max(0, largest(times.map(text => Date.parse(text ?? '')).filter(time => !Number.isNaN(time))));
}
