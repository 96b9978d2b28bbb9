import {append} from '../model/lists.ts';
import type {Difference} from '../model/difference.ts';
import type {Chain, ChainsByName, Ruleset} from '../model/ruleset.ts';
import {parseRule} from '../parse/iptables/rule.ts';
import {compareLists} from './pair-rules.ts';
import {SharedChains, type SharedRule} from './shared-chains.ts';

/** The expected rules, grouped by owner. A group is rendered only while it is compared. */
export interface RulesetExpectation<Owner> {
  readonly owners: Iterable<Owner>;
  rulesOf(owner: Owner): OwnerRules;
  /**
   * Explains all differences in the owner's own chains, so that they are not listed: returns the unexpected chains that belong to them, or
   * null if they are to be listed. Asked only of an owner whose chains differ.
   */
  explain?(owner: Owner, rules: OwnerRules): readonly string[] | null;
  /** Rules without an owner, by `table/chain`. A chain listed here with no rules, and without rules of an owner, must be empty. */
  baseRules(): ReadonlyMap<string, readonly string[]>;
  /** The base chains, as `table/chain`: of these, only the presence of the expected rules is compared. */
  readonly open: ReadonlySet<string>;
  /** Chains in which the order of rules does not matter. */
  readonly unordered: ReadonlySet<string>;
}

export interface OwnerRules {
  /** Chains that belong to the owner alone, as text by name. */
  readonly own: ReadonlyMap<string, string>;
  /** Its rules in chains that others share. */
  readonly shared: readonly SharedRule[];
  /** The same object is the answer for other nodes too. */
  readonly isKept?: true;
}

export interface RulesetComparison<Owner> {
  readonly differences: readonly Difference<Owner>[];
  /** The result for each chain of table nat (`chainFound`), by its index there. */
  readonly nat: Readonly<Uint8Array>;
}

/** A chain that is not expected, one with the expected text, and one with another text. */
export const chainFound = {unexpected: 0, same: 1, changed: 2} as const;

/**
 * Lists the differences between expected and actual rules, ignoring counters, comments and the order of independent rules. A chain whose
 * text is the expected text is done at once; only chains that differ are parsed.
 */
export function compareRulesets<Owner>(expected: RulesetExpectation<Owner>, actual: Ruleset): RulesetComparison<Owner> {
  const differences: Difference<Owner>[] = [];
  const chains = actual.tables.get('nat')?.chains;
  const nat = new Uint8Array(chains?.size ?? 0);
  const shared = new SharedChains<Owner>(expected, actual);
  for (const owner of expected.owners) {
    const rules = expected.rulesOf(owner);
    const changed: (readonly [name: string, text: string])[] = [];
    for (const [name, text] of rules.own) {
      const place = chains?.placeOf(name) ?? -1;
      const isSame = place >= 0 && chains?.textAt(place) === text;
      if (place >= 0) nat[place] = isSame ? chainFound.same : chainFound.changed;
      if (!isSame) changed.push([name, text]);
    }
    const explained = changed.length === 0 ? [] : (expected.explain?.(owner, rules) ?? null);
    if (explained === null) append(differences, compareChains(owner, changed, chains));
    else for (const name of explained) nat[chains?.placeOf(name) ?? -1] = chainFound.changed;
    shared.expect(rules.shared, owner);
  }
  for (const [key, texts] of expected.baseRules()) {
    const [table = '', name = ''] = key.split('/');
    const chain = shared.chain(table, name);
    for (const text of texts) chain.expect(text, null);
  }
  append(differences, shared.differences());
  return {differences, nat};
}

/** The differences in an owner's own chains alone. */
export function compareOwnChains<Owner>(expected: RulesetExpectation<Owner>, actual: Ruleset, owner: Owner): readonly Difference<Owner>[] {
  const chains = actual.tables.get('nat')?.chains;
  const changed = [...expected.rulesOf(owner).own].filter(([name, text]) => chains?.get(name)?.text() !== text);
  return compareChains(owner, changed, chains);
}

function compareChains<Owner>(
  owner: Owner,
  changed: readonly (readonly [name: string, text: string])[],
  chains: ChainsByName | undefined,
): readonly Difference<Owner>[] {
  return changed.flatMap(([name, text]) => compareChain({table: 'nat', name, text, owner}, chains?.get(name)));
}

/** Compares a chain of one owner: order matters. */
function compareChain<Owner>(
  expected: {table: string; name: string; text: string; owner: Owner},
  actual: Chain | undefined,
): readonly Difference<Owner>[] {
  const {table, name, text, owner} = expected;
  const rules = text.split('\n').map(line => ({rule: parseRule(line, {table, chain: name, line: 0}), owner}));
  return compareLists({table, chain: name}, rules, actual?.rules() ?? [], owner);
}
