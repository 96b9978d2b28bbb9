import type {Difference, Rule} from '../model/ruleset.ts';
import {pushTo} from '../model/lists.ts';
import {comparableRule} from '../parse/iptables/comparable-rule.ts';

export interface OwnedRule<Owner> {
  readonly rule: Rule;
  readonly owner: Owner | null;
}

/** Compares the rules of one chain in which order matters. */
export function compareLists<Owner>(
  expected: readonly OwnedRule<Owner>[],
  actual: readonly Rule[],
  owner: Owner | null,
): readonly Difference<Owner>[] {
  const {pairs, differences} = pairUp(expected, actual, owner);
  let last = 0;
  for (const [index, rule] of pairs) {
    if (index < last) return [...differences, {kind: 'reordered', rule, owner}];
    last = index;
  }
  return differences;
}

/** Pairs each actual rule with its index among the expected ones: `[index among the expected, actual rule]`, in actual order. */
export function pairUp<Owner>(
  expected: readonly OwnedRule<Owner>[],
  actual: readonly Rule[],
  owner: Owner | null,
): {readonly pairs: readonly (readonly [number, Rule])[]; readonly differences: readonly Difference<Owner>[]} {
  const differences: Difference<Owner>[] = [];
  const waiting = new Map<string, number[]>();
  for (const [index, {rule}] of expected.entries()) pushTo(waiting, comparableRule(rule), index);
  const known = new Set(waiting.keys());
  const pairs: (readonly [number, Rule])[] = [];
  let last = -1;
  for (const rule of actual) {
    const key = comparableRule(rule);
    const index = takePlace(waiting.get(key), last);
    last = index ?? last;
    if (index !== undefined) pairs.push([index, rule]);
    else differences.push({kind: known.has(key) ? 'duplicate' : 'extra', rule, owner});
  }
  const missing = [...waiting.values()].flat().sort((a, b) => a - b);
  for (const index of missing) {
    const item = expected[index];
    if (item !== undefined) differences.push({kind: 'missing', rule: item.rule, owner: item.owner});
  }
  return {pairs, differences};
}

/** Of equal rules, the first after the previous match, so that a missing rule is one difference and not two. */
function takePlace(places: number[] | undefined, last: number): number | undefined {
  if (places === undefined) return undefined;
  const at = places.findIndex(place => place > last);
  return places.splice(Math.max(at, 0), 1)[0];
}
