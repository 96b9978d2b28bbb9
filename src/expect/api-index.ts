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

/** Computed once for each list: with thousands of nodes, a search through thousands of objects for each would be slow. */
export function once<List extends object, Result>(work: (list: List) => Result): (list: List) => Result {
  const results = new WeakMap<List, {readonly value: Result}>();
  return list => {
    const known = results.get(list) ?? {value: work(list)};
    results.set(list, known);
    return known.value;
  };
}
