import {plural} from '../model/text/plural.ts';
import type {FindingGroup} from './group-findings.ts';

/** The commands for one finding on many nodes. */
interface GroupCommands {
  /** One after the other. */
  readonly lines: readonly CommandLine[];
  /** So many nodes have commands of their own that are not among the lines. */
  readonly otherNodes: number;
}

interface CommandLine {
  /** A command that is not kubectl's is run on the node, as root. */
  readonly isOnNode: boolean;
  /** Not escaped. */
  readonly text: string;
}

/** Pods of several nodes are deleted with one command; of other commands those of the first node are shown. */
export function groupCommands({commands}: Pick<FindingGroup, 'commands'>): GroupCommands {
  const distinct = [...new Set(commands)];
  const [first = ''] = distinct;
  const deletions = distinct.slice(0, maxPods).map(command => deletion.exec(command));
  const isOneDeletion = distinct.length > 1 && deletions.every(found => found?.[1] === deletions[0]?.[1] && found !== null);
  const text = isOneDeletion
    ? `${first} ${deletions
        .slice(1)
        .map(found => found?.[2])
        .join(' ')}`
    : first;
  const lines = text === '' ? [] : text.split('\n').map(line => ({isOnNode: !line.startsWith('kubectl '), text: line}));
  return {lines, otherNodes: distinct.length - (isOneDeletion ? deletions.length : Math.min(distinct.length, 1))};
}

/** The lines by where they are run, for formats with a block of text for each place. */
export function commandsByPlace(group: Pick<FindingGroup, 'commands'>): readonly (readonly [label: string, texts: readonly string[]])[] {
  const {lines, otherNodes} = groupCommands(group);
  const more = otherNodes > 0 ? `, and likewise on ${plural(otherNodes, 'more node')}` : '';
  const places = Map.groupBy(lines, ({isOnNode}) => isOnNode);
  return [...places].map(([isOnNode, own]) => [`Run${isOnNode ? ' on the node' : ''}${more}`, own.map(({text}) => text)]);
}

/** In the last line. */
const deletion = /(?:^|\n)(kubectl -n \S+ delete) (\S+)$/;
const maxPods = 10;
