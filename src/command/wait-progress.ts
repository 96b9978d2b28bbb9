import {escapeText} from '../render/escape.ts';
import {nodeList} from '../render/finding-text.ts';
import {count} from '../render/verdict-line.ts';
import {secondsText} from '../render/wait-section.ts';

/** After the first look at all nodes. */
export function firstLookText(clean: readonly string[], pending: readonly string[]): string {
  const first = `${clean.length} of ${count(clean.length + pending.length, 'node')} as they should be at the first look`;
  return pending.length === 0 ? first : `${first}; not yet: ${nodeList(pending)}`;
}

/** A line for each node that has become clean; one for all when they are many. */
export function cleanTexts(nodes: readonly string[], seconds: number): readonly string[] {
  const after = `as it should be after ${secondsText(seconds)}`;
  return nodes.length > mostLines ? [`${nodes.length} nodes: ${after}`] : nodes.map(name => `${escapeText(name)}: ${after}`);
}

const mostLines = 10;
