import type {DiagnoseOptions} from '../../diagnose.ts';
import type {NodeObject} from '../../model/api-objects.ts';
import type {Snapshot} from '../../model/snapshot.ts';
import {type ChosenNodes, chooseNodes, type NodeChoice} from '../../run/scope/choose-nodes.ts';
import {evaluationOptions, type ParsedEvaluationFlags} from '../../run/options/evaluation-options.ts';
import {selectServices} from '../../run/scope/select-services.ts';
import type {ScopeFlags} from '../../run/scope/scope-flags.ts';

/** Converts the command line to the options of `diagnose` for a bundle. Throws a CLIError (exit 2) for unknown names. */
export function diagnoseOptions(
  flags: ScopeFlags & ParsedEvaluationFlags,
  names: readonly string[],
  snapshot: Snapshot,
): Omit<DiagnoseOptions, 'toolVersion'> {
  const {names: nodes, sample} = nodesOf(flags, snapshot);
  const chosen = new Set(nodes);
  const {namespace, selector} = flags;
  return {
    ...selectServices({names, namespace, allNamespaces: flags['all-namespaces'] ?? false, selector}, snapshot.api),
    ...evaluationOptions(flags),
    nodes: name => chosen.has(name),
    ...(sample === undefined ? {} : {sample}),
  };
}

/** The requested nodes of a bundle. */
export function selectNodes(flags: NodeChoice, snapshot: Snapshot): (name: string) => boolean {
  const chosen = new Set(nodesOf(flags, snapshot).names);
  return name => chosen.has(name);
}

/** A bundle may contain dumps of nodes without a Node object. */
function nodesOf(flags: NodeChoice, {nodes, api}: Snapshot): ChosenNodes {
  const dumped = nodes.map(({name}): [string, NodeObject] => [name, {metadata: {name}}]);
  const objects = (api.nodes ?? []).map((node): [string, NodeObject] => [node.metadata.name, node]);
  return chooseNodes(flags, [...new Map([...dumped, ...objects]).values()]);
}
