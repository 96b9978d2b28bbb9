import {hash} from 'node:crypto';
import type {NodeObject} from '../../model/api-objects.ts';
import {type LabelRequirement, matchesRequirement, selectorParts} from '../../model/label-selector.ts';
import {closest, wrongUse} from '../wrong-use.ts';

/** The flags that choose nodes. */
export interface NodeChoice {
  readonly node?: readonly string[] | undefined;
  readonly 'node-selector'?: string | undefined;
  readonly sample?: number | undefined;
}

export interface ChosenNodes {
  /** In order. */
  readonly names: readonly string[];
  /** How many nodes there were in total, if only a sample was taken. */
  readonly sample?: {readonly of: number};
}

/** Throws a CLIError (exit 2) for an unknown node name, and if no node matches the label selector. */
export function chooseNodes(flags: NodeChoice, nodes: readonly NodeObject[]): ChosenNodes {
  const known = nodes.map(({metadata}) => metadata.name);
  // As kubectl prints them with -o name.
  const wanted = new Set((flags.node ?? []).map(name => name.replace(/^(?:node|nodes|no)\//, '')));
  const unknown = [...wanted].find(name => !known.includes(name));
  if (unknown !== undefined) throw wrongUse(`node "${unknown}" not found`, closest(unknown, known));
  const requirements = flags['node-selector'] === undefined ? [] : parseSelector(flags['node-selector']);
  const chosen = nodes.filter(
    ({metadata}) => (wanted.size === 0 || wanted.has(metadata.name)) && matchesSelector(metadata.labels ?? {}, requirements),
  );
  if (chosen.length === 0 && requirements.length > 0 && nodes.length > 0)
    throw wrongUse(`no node matches --node-selector ${flags['node-selector']}`);
  const names = chosen.map(({metadata}) => metadata.name).sort();
  const {sample} = flags;
  return sample === undefined || sample >= names.length ? {names} : {names: sampleOf(names, sample), sample: {of: names.length}};
}

/**
 * A deterministic sample, spread over all nodes, which changes little when nodes are added or removed: the nodes with the smallest hashes.
 */
function sampleOf(names: readonly string[], size: number): readonly string[] {
  return names
    .map(name => ({name, hash: hash('sha256', name, 'binary')}))
    .sort((a, b) => (a.hash < b.hash ? -1 : 1))
    .slice(0, size)
    .map(({name}) => name)
    .sort();
}

/** Reads a label selector as kubectl does. Throws a CLIError (exit 2). */
export function parseSelector(text: string): readonly LabelRequirement[] {
  return selectorParts(text).map(({part, requirement}) => {
    if (requirement === null) throw wrongUse(`"${text}" is not a label selector: cannot parse "${part}"`);
    return requirement;
  });
}

export function matchesSelector(labels: Readonly<Record<string, string>>, requirements: readonly LabelRequirement[]): boolean {
  return requirements.every(requirement => matchesRequirement(labels, requirement));
}

/** The flags that name Services and nodes. */
export interface ScopeFlags extends NodeChoice {
  readonly namespace?: string | undefined;
  readonly 'all-namespaces'?: boolean;
  readonly selector?: string | undefined;
}
