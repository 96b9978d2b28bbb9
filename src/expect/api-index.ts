import type {NodeObject, PodObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {once} from '../model/once.ts';

/** The Node with this name; undefined if it does not exist or Nodes were not read. */
export function nodeObject({nodes}: ApiObjects, name: string): NodeObject | undefined {
  return nodes === null ? undefined : nodesByName(nodes).get(name);
}

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
