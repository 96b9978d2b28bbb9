import type {DiagnoseOptions} from '../../diagnosis/diagnose-node.ts';
import type {NodeObject} from '../../model/api-objects.ts';
import type {Snapshot} from '../../model/snapshot.ts';
import {shellWord, withoutPassword} from '../../model/text.ts';
import {evaluationOptions} from '../../run/options/evaluation-options.ts';
import type {ParsedEvaluationFlags} from '../../run/cluster-run.ts';
import {chooseNodes, type ChosenNodes, type NodeChoice, type ScopeFlags} from '../../run/scope/choose-nodes.ts';
import {selectionOf, selectServices} from '../../run/scope/select-services.ts';

/** Converts the command line to the options of `diagnose` for a bundle. Throws a CLIError (exit 2) for unknown names. */
export function diagnoseOptions(
  flags: ScopeFlags & ParsedEvaluationFlags,
  names: readonly string[],
  snapshot: Snapshot,
): Omit<DiagnoseOptions, 'toolVersion'> {
  const {names: nodes, sample} = nodesOf(flags, snapshot);
  const chosen = new Set(nodes);
  return {
    ...selectServices(selectionOf(names, flags), snapshot.api),
    ...evaluationOptions(flags),
    nodes: name => chosen.has(name),
    sample,
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

/** A command line as it can be typed again, with what is secret left out. */
export function commandText(args: readonly string[]): string {
  const shown = args.map((arg, index) => {
    const [flag = '', value] = arg.split(/=(.*)/s);
    if (value !== undefined && secretFlags.has(flag)) return `${flag}=${hidden}`;
    return secretFlags.has(args[index - 1] ?? '') ? hidden : shellWord(withoutPassword(arg));
  });
  return ['kubectl svc-trace', ...shown].join(' ');
}

const secretFlags: ReadonlySet<string> = new Set(['--token', '--as-user-extra']);
const hidden = 'HIDDEN';
