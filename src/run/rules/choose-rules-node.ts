import type {NodeDump, Snapshot} from '../../model/snapshot.ts';
import {closest, notRead, wrongUse} from '../wrong-use.ts';

/** The node that rules are generated for: the named one, or the only one. Throws a CLIError (exit 2). */
export function chooseRulesNode({nodes, api}: Snapshot, name: string | undefined, fromManifestsAlone: boolean): NodeDump {
  const dumps = new Map(nodes.map(node => [node.name, node]));
  const known = [...new Set([...dumps.keys(), ...(api.nodes ?? []).map(({metadata}) => metadata.name)])].sort();
  const [only] = known;
  if (name === undefined && known.length > 1)
    throw wrongUse(
      `name one of the ${known.length} nodes with --for-node: ${known.slice(0, 5).join(', ')}${known.length > 5 ? ', …' : ''}`,
    );
  if (name === undefined && only === undefined && !fromManifestsAlone)
    throw wrongUse('no nodes were found, and rules are those of one node: a bundle needs api/nodes.json, manifests alone (-f) need none');
  const chosen = name ?? only ?? 'node';
  if (!known.includes(chosen) && !(fromManifestsAlone && known.length === 0))
    throw wrongUse(`node "${chosen}" not found`, closest(chosen, known));
  return dumps.get(chosen) ?? emptyNodeDump(chosen);
}

/** A node of which nothing was read. */
export function emptyNodeDump(name: string): NodeDump {
  return {name, files: [], read: () => null};
}

/** Rules follow from Services and their endpoints. Throws a CLIError (exit 3) with the reason if one of them was not read. */
export function requireServices({api: {services, endpointSlices, endpoints}, problems}: Snapshot): void {
  const areServicesRead = services !== null;
  if (areServicesRead && (endpointSlices !== null || endpoints !== null)) return;
  const problem = problems.find(({list}) => list !== undefined && (list === 'services') !== areServicesRead);
  const name = areServicesRead ? 'EndpointSlices' : 'Services';
  const reason = problem === undefined ? '' : `: ${problem.message}`;
  throw notRead(`the ${name} could not be read${reason}`, problem?.remedy === undefined ? [] : [problem.remedy]);
}
