import {pushTo} from '../../model/lists.ts';
import type {NodeWait, Report, WaitReport} from '../../model/report.ts';
import {plural} from '../../model/text.ts';
import {nodeList} from '../finding-blocks.ts';
import {escapeText, plainTable, type Style, wrap} from '../renderer.ts';
import {secondsText} from '../verdict-line.ts';

/** How long the nodes took to converge: those that have not converged first, then the slowest. */
export function waitSection({nodes, seconds, limitSeconds, looks, clean}: WaitReport, style: Style, all: boolean): string {
  const head = clean ? style.green(`CONVERGED in ${secondsText(seconds)}`) : style.red(`NOT CONVERGED after ${secondsText(seconds)}`);
  const loud = nodes.filter(({look}) => all || look !== 1).toSorted((a, b) => slowness(b) - slowness(a));
  const shown = all ? loud : loud.slice(0, maxRows);
  const rest = nodes.filter(({look}) => look === 1).length;
  return [
    `${head} (--wait ${secondsText(limitSeconds)}, ${plural(looks, 'check')})`,
    ...(shown.length === 0
      ? []
      : [
          plainTable(
            ['NODE', 'CONVERGED'],
            shown.map(wait => [escapeText(wait.name), convergedText(wait)]),
          ),
        ]),
    ...(loud.length > shown.length ? [style.dim(`${loud.length - shown.length} more nodes; -o wide shows them`)] : []),
    ...(all || rest === 0 ? [] : [style.dim(`${plural(rest, 'node')} in sync from the first check`)]),
  ].join('\n');
}

const maxRows = 20;

/** `in 3.2 s`. */
export function convergedText({look, seconds, waitedFor}: NodeWait): string {
  if (waitedFor === false) return 'not waited for: a permanent error keeps it from being read';
  if (seconds === undefined) return 'not yet';
  return look === 1 ? 'in sync from the first check' : `in ${secondsText(seconds)}`;
}

/** The same as a sentence. */
export function waitText(wait: NodeWait): string {
  return `converged: ${convergedText(wait)}`;
}

function slowness({seconds}: NodeWait): number {
  return seconds ?? Number.MAX_VALUE;
}

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
