import type {NodeObject} from '../../model/api-objects.ts';
import type {NodeInfo} from '../node/transport.ts';
import {podsByNode, type PodsReading} from './read-agent-pods.ts';

/** What transports need to know about these nodes. A node whose object was not read is known by its name and its pods. */
export function nodeInfos(names: readonly string[], objects: readonly NodeObject[], {pods, problems}: PodsReading): readonly NodeInfo[] {
  const byName = new Map(objects.map(object => [object.metadata.name, object]));
  const byNode = podsByNode(pods ?? []);
  const isUnlisted = pods === null && problems.length > 0 && problems.every(({isPermanent}) => isPermanent);
  return names.map(name => {
    const object = byName.get(name);
    return {
      name,
      addresses: (object?.status?.addresses ?? []).flatMap(({type, address}) =>
        type === undefined || address === undefined ? [] : [{type, address}],
      ),
      labels: object?.metadata.labels ?? {},
      pods: byNode.get(name) ?? [],
      ...(problems[0] === undefined ? {} : {unlisted: problems[0].message}),
      ...(isUnlisted ? {isUnlisted: true as const} : {}),
    };
  });
}
