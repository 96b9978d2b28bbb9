import type {NodeObject, PodObject} from '../../model/api-objects.ts';
import type {NodeInfo} from '../transport.ts';
import {podsByNode} from './read-agent-pods.ts';

/** What transports need to know of these nodes. A node whose object was not read is known by its name and its pods. */
export function nodeInfos(names: readonly string[], objects: readonly NodeObject[], pods: readonly PodObject[]): readonly NodeInfo[] {
  const byName = new Map(objects.map(object => [object.metadata.name, object]));
  const byNode = podsByNode(pods);
  return names.map(name => {
    const object = byName.get(name);
    return {
      name,
      addresses: (object?.status?.addresses ?? []).flatMap(({type, address}) =>
        type === undefined || address === undefined ? [] : [{type, address}],
      ),
      labels: object?.metadata.labels ?? {},
      pods: byNode.get(name) ?? [],
    };
  });
}
