import {plural} from '../../model/text/plural.ts';
import {escapeText} from '../escape.ts';
import {isIPv4, nodeRanges} from '../node-names.ts';
import type {NodeGroup} from './matrix-cells.ts';

interface NodeTitle {
  /** For the head of the column. */
  readonly title: string;
  /** Below the table, if the title is a letter: the names of the nodes. */
  readonly legend: readonly string[];
}

/**
 * Titles that name the nodes of each group: a name, a range such as `node-[a-c]`, or a letter that the legend explains. Of long names in the
 * same domain, such as those of EKS, titles have the host names, and the legend the domain.
 */
export function nodeTitles(groups: readonly NodeGroup[]): readonly NodeTitle[] {
  const domain = sharedDomain(groups.flatMap(({nodes}) => nodes));
  const titles = groupTitles(groups.map(({nodes}) => nodes.map(name => name.slice(0, name.length - domain.length))));
  const [first, ...others] = titles;
  if (domain === '' || first === undefined) return titles;
  return [{...first, legend: [`node names end in ${escapeText(domain)}`, ...first.legend]}, ...others];
}

function groupTitles(groups: readonly (readonly string[])[]): readonly NodeTitle[] {
  let letters = 0;
  return groups.map(nodes => {
    const [only = ''] = nodes;
    if (nodes.length === 1) return {title: escapeText(only), legend: []};
    const ranges = nodeRanges(nodes);
    const text = ranges.map(range => range.text).join(',');
    if (text.length <= maxTitle) return {title: escapeText(text), legend: []};
    const letter = letterOf(letters++);
    return {title: `${plural(nodes.length, 'node')} (${letter})`, legend: [`(${letter}) ${legendText(ranges)}`]};
  });
}

/** `.eu-central-1.compute.internal`, if all names end in it and one of them is too long for a title; else empty. */
function sharedDomain(names: readonly string[]): string {
  const domains = new Set(names.map(name => /(?<=[^.])\..*$/.exec(name)?.[0] ?? ''));
  const [domain = ''] = domains;
  return domains.size === 1 && !isIPv4(names[0] ?? '') && names.some(name => name.length > maxTitle) ? domain : '';
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
