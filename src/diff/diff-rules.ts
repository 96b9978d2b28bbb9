import type {RulesChange} from '../model/bundle-diff.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {heldLines} from './held-lines.ts';

/** The lines that only one of the sides has, place by place; blind to their order and to counters. */
export function diffRules(before: NodeDump, after: NodeDump): readonly RulesChange[] {
  const [old, young] = [heldLines(before), heldLines(after)];
  const changes: RulesChange[] = [];
  for (const place of [...new Set([...old.keys(), ...young.keys()])].sort()) {
    const [was, is] = [old.get(place)?.() ?? '', young.get(place)?.() ?? ''];
    if (was === is) continue;
    const came = linesOnlyIn(is, was);
    const went = linesOnlyIn(was, is);
    if (came.length + went.length > 0) changes.push({node: after.name, place, came, went});
  }
  return changes;
}

/** A line that stands twice in one text and once in the other is left over once. */
function linesOnlyIn(text: string, other: string): readonly string[] {
  const left = new Map<string, number>();
  for (const line of linesOf(other)) left.set(line, (left.get(line) ?? 0) + 1);
  return linesOf(text).filter(line => {
    const count = left.get(line) ?? 0;
    if (count > 0) left.set(line, count - 1);
    return count === 0;
  });
}

function linesOf(text: string): readonly string[] {
  return text === '' ? [] : text.split('\n');
}
