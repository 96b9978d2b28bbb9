import type {RulesChange} from '../model/findings/bundle-diff.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {type HeldLines, heldLines} from './unmatched-lines.ts';

/** The lines that only one side has, for each chain, set or list; ignores their order and counters. */
export function diffRules(before: NodeDump, after: NodeDump): readonly RulesChange[] {
  const [old, young] = [heldLines(before), heldLines(after)];
  return [...new Set([...old.keys(), ...young.keys()])]
    .flatMap(name =>
      diffHeld(old.get(name) ?? nothing, young.get(name) ?? nothing).map(change => ({...change, place: name + change.place})),
    )
    .map(({place, came, went}) => ({node: after.name, place, came, went}))
    .sort((a, b) => (a.place < b.place ? -1 : 1));
}

const nothing: HeldLines = {places: () => [], textAt: () => ''};

type PlaceChange = Omit<RulesChange, 'node'>;

/** Most texts are the same on both sides, and nothing is kept of them. */
function diffHeld(old: HeldLines, young: HeldLines): readonly PlaceChange[] {
  const changes = new Map<string, PlaceChange>();
  const compareAt = (place: string) => {
    const [was, is] = [old.textAt(place), young.textAt(place)];
    if (was === is) return;
    const [came, went] = [linesOnlyIn(is, was), linesOnlyIn(was, is)];
    if (came.length + went.length > 0) changes.set(place, {place, came, went});
  };
  for (const place of old.places()) compareAt(place);
  for (const place of young.places()) if (old.textAt(place) === '') compareAt(place);
  return [...changes.values()];
}

/** A line that occurs twice in one text and once in the other is left over once. */
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
