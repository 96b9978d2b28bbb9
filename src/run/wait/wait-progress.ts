import {escapeText} from '../../render/escape.ts';
import {nodeList} from '../../render/node-list.ts';
import {secondsText} from '../../render/seconds-text.ts';
import {pushTo} from '../../model/lists.ts';
import {plural} from '../../model/text/plural.ts';

/** After the first check of all nodes. */
export function firstCheckText(clean: readonly string[], pending: readonly string[]): string {
  const first = `converged: ${clean.length} of ${plural(clean.length + pending.length, 'node')}`;
  return pending.length === 0 ? first : `${first}; waiting for ${nodeList(pending)}`;
}

/** A line for each node that has become clean; one line for all if they are many. */
export function cleanTexts(nodes: readonly string[], seconds: number): readonly string[] {
  const after = `converged in ${secondsText(seconds)}`;
  return nodes.length > maxLines ? [`${nodes.length} nodes ${after}`] : nodes.map(name => `${escapeText(name)} ${after}`);
}

const maxLines = 10;

/** A line for each reason why nodes are not waited for. */
export function permanentTexts(reasons: ReadonlyMap<string, string>): readonly string[] {
  const byReason = new Map<string, string[]>();
  // Reasons that differ only in the node's name are one reason.
  for (const [name, reason] of reasons) {
    const key = reason.replaceAll(name, '\0');
    pushTo(byReason, key, name);
  }
  return [...byReason.values()].slice(0, maxLines).map(names => {
    const reason = escapeText(reasons.get(names[0] ?? '') ?? '');
    return `not waited for (permanent error): ${nodeList(names)}: ${reason}`;
  });
}
