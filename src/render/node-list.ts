import {escapeText} from './escape.ts';
import {nodeRanges} from './node-names.ts';

/** Names of nodes for a sentence, escaped: consecutive names as ranges such as `node-[a-c]`, and no more than fit on a line. */
export function nodeList(nodes: readonly string[]): string {
  if (nodes.length <= maxNames) return nodes.map(escapeText).join(', ');
  const ranges = nodeRanges(nodes);
  const shown = ranges.slice(0, maxNames);
  const rest = ranges.slice(maxNames).reduce((sum, {size}) => sum + size, 0);
  const names = shown.map(({text}) => escapeText(text)).join(', ');
  return rest === 0 ? names : `${names} and ${rest} more ${rest === 1 ? 'node' : 'nodes'}`;
}

const maxNames = 5;
