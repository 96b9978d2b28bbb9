import type {Rule, Ruleset} from '../../model/ruleset.ts';

/** A jump that is missing from a base chain, in words; and the jumps that lead to the same chain under other conditions. */
export function missingHook(actual: Ruleset, {table, chain, target}: Rule): {readonly state: string; readonly closest: readonly Rule[]} {
  const name = target?.name ?? '';
  const rules = actual.chain(table, chain)?.rules() ?? [];
  const closest = rules.filter(rule => rule.target?.name === name);
  const state =
    closest.length === 0
      ? `${name} is not reached from ${table}/${chain}`
      : `the jump from ${table}/${chain} to ${name} has other conditions`;
  return {state, closest: closest.slice(0, 3)};
}
