import type {NodeObject, PodObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';

/** The Node with this name; undefined if it does not exist or Nodes were not read. */
export function nodeObject({nodes}: ApiObjects, name: string): NodeObject | undefined {
  return nodes === null ? undefined : nodesByName(nodes).get(name);
}

/** The pods that run on a node, in the order of the API's list. */
export function podsOnNode({pods}: ApiObjects, node: string): readonly PodObject[] {
  return pods === null ? [] : (podsByNode(pods).get(node) ?? []);
}

const nodesByName = once((nodes: readonly NodeObject[]) => new Map(nodes.toReversed().map(node => [node.metadata.name, node])));

const podsByNode = once((pods: readonly PodObject[]) => Map.groupBy(pods, ({spec}) => spec?.nodeName));

/**
 * Computed once for each object, such as the list of all nodes: with thousands of nodes, a search through thousands of objects for each
 * would be slow.
 */
export function once<Given extends object, Result>(work: (given: Given) => Result): (given: Given) => Result {
  const results = new WeakMap<Given, {readonly value: Result}>();
  return given => {
    const known = results.get(given);
    if (known !== undefined) return known.value;
    const value = work(given);
    results.set(given, {value});
    return value;
  };
}
