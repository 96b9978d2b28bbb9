import {plural} from '../../model/text/plural.ts';
import {escapeText} from '../escape.ts';
import {nodeRanges} from '../node-names.ts';
import type {NodeGroup} from './matrix-cells.ts';

interface NodeTitle {
  /** For the head of the column. */
  readonly title: string;
  /** Below the table, if the title is a letter: the names of the nodes. */
  readonly legend: readonly string[];
}

/** Titles that name the nodes of each group: a name, a range such as `node-[a-c]`, or a letter that the legend explains. */
export function nodeTitles(groups: readonly NodeGroup[]): readonly NodeTitle[] {
  let letters = 0;
  return groups.map(({nodes}) => {
    const [only = ''] = nodes;
    if (nodes.length === 1) return {title: escapeText(only), legend: []};
    const ranges = nodeRanges(nodes);
    const text = ranges.map(range => range.text).join(',');
    if (text.length <= maxTitle) return {title: escapeText(text), legend: []};
    const letter = letterOf(letters++);
    return {title: `${plural(nodes.length, 'node')} (${letter})`, legend: [`(${letter}) ${legendText(ranges)}`]};
  });
}

const maxTitle = 24;
const maxRanges = 30;

function legendText(ranges: ReturnType<typeof nodeRanges>): string {
  const shown = ranges.slice(0, maxRanges).map(({text}) => escapeText(text));
  const rest = ranges.slice(maxRanges).reduce((sum, {size}) => sum + size, 0);
  return `${shown.join(', ')}${rest === 0 ? '' : ` and ${rest} more`}`;
}

function letterOf(index: number): string {
  return index < 26 ? String.fromCharCode(65 + index) : `A${index - 25}`;
}
