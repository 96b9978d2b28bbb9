import {createHash} from 'node:crypto';
import {Errors} from '@oclif/core';
import type {NodeObject} from '../../model/api-objects.ts';
import {escapeText} from '../../render/escape.ts';
import {closest} from './closest.ts';
import {matchesSelector, parseSelector} from './label-selector.ts';

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
  const wanted = new Set(flags.node ?? []);
  const unknown = [...wanted].find(name => !known.includes(name));
  if (unknown !== undefined)
    throw new Errors.CLIError(escapeText(`node "${unknown}" not found`), {exit: 2, suggestions: closest(unknown, known).map(escapeText)});
  const requirements = flags['node-selector'] === undefined ? [] : parseSelector(flags['node-selector']);
  const chosen = nodes.filter(
    ({metadata}) => (wanted.size === 0 || wanted.has(metadata.name)) && matchesSelector(metadata.labels ?? {}, requirements),
  );
  if (chosen.length === 0 && requirements.length > 0 && nodes.length > 0)
    throw new Errors.CLIError(escapeText(`no node matches --node-selector ${flags['node-selector']}`), {exit: 2});
  const names = chosen.map(({metadata}) => metadata.name).sort();
  const {sample} = flags;
  return sample === undefined || sample >= names.length ? {names} : {names: sampleOf(names, sample), sample: {of: names.length}};
}

/**
 * A deterministic sample, spread over all nodes, which changes little when nodes are added or removed: the nodes with the smallest hashes.
 */
function sampleOf(names: readonly string[], size: number): readonly string[] {
  return names
    .map(name => ({name, hash: createHash('sha256').update(name).digest('hex')}))
    .sort((a, b) => (a.hash < b.hash ? -1 : 1))
    .slice(0, size)
    .map(({name}) => name)
    .sort();
}
