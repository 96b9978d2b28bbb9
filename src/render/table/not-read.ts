import type {Report} from '../../model/report.ts';
import {pushTo} from '../../model/lists.ts';
import {escapeText} from '../escape.ts';
import {nodeList} from '../node-list.ts';
import type {Style} from '../style.ts';
import {wrap} from '../wrap.ts';

/** Under -v: the optional files that were not read, by the reason, with the nodes. Empty when all were. */
export function notReadSection({nodes}: Report, {style, width}: {readonly style: Style; readonly width: number}): readonly string[] {
  const byReason = new Map<string, {readonly file: string; readonly node: string}[]>();
  for (const {name: node, notRead = []} of nodes) for (const {file, reason} of notRead) pushTo(byReason, reason, {file, node});
  const blocks = [...byReason].flatMap(([reason, all]) => ofReason(reason, all));
  if (blocks.length === 0) return [];
  return [['Not read, and not required:', ...blocks.flatMap(text => wrap(text, width, '  ').map(style.dim))].join('\n')];
}

/** Files that are missing on the same nodes stand together. */
function ofReason(reason: string, all: readonly {readonly file: string; readonly node: string}[]): readonly string[] {
  const nodesOf = Map.groupBy(all, ({file}) => file);
  const filesOf = Map.groupBy([...nodesOf], ([, places]) => nodeList(places.map(({node}) => node)));
  return [...filesOf].map(([nodes, files]) => `${nodes}: ${escapeText(`${files.map(([file]) => file).join(', ')}: ${reason}`)}`);
}
