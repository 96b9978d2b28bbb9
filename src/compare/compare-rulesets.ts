import {append} from '../model/lists.ts';
import type {Difference} from '../model/difference.ts';
import type {Chain, ChainsByName, Rule, Ruleset} from '../model/ruleset.ts';
import {comparableRule} from '../parse/iptables/comparable-rule.ts';
import {parseRule} from '../parse/iptables/rule.ts';

/** The expected rules, grouped by owner. A group is rendered only while it is compared. */
export interface RulesetExpectation<Owner> {
  readonly owners: Iterable<Owner>;
  /** Chains that belong to the owner alone, as text by name, and its rules in shared chains. */
  rulesOf(owner: Owner): {
    readonly own: ReadonlyMap<string, string>;
    readonly shared: readonly {readonly table: string; readonly chain: string; readonly text: string}[];
  };
  /**
   * Explains all differences in the owner's own chains, so that they are not listed: returns the unexpected chains that belong to them, or
   * null if they are to be listed. Asked only of an owner whose chains differ.
   */
  explain?(owner: Owner, own: ReadonlyMap<string, string>): readonly string[] | null;
  /** Rules without an owner, by `table/chain`. A chain listed here with no rules, and without rules of an owner, must be empty. */
  baseRules(): ReadonlyMap<string, readonly string[]>;
  /** The base chains, as `table/chain`: of these, only the presence of the expected rules is compared. */
  readonly open: ReadonlySet<string>;
  /** Chains in which the order of rules does not matter. */
  readonly unordered: ReadonlySet<string>;
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
  const shared = new Map<string, OwnedSharedRule<Owner>[]>();
  for (const owner of expected.owners) {
    const rules = expected.rulesOf(owner);
    const changed: (readonly [name: string, text: string])[] = [];
    rules.own.forEach((text, name) => {
      const place = chains?.placeOf(name) ?? -1;
      const isSame = place >= 0 && chains?.textAt(place) === text;
      if (place >= 0) nat[place] = isSame ? chainFound.same : chainFound.changed;
      if (!isSame) changed.push([name, text]);
    });
    const explained = changed.length === 0 ? [] : (expected.explain?.(owner, rules.own) ?? null);
    if (explained === null) append(differences, compareChains(owner, changed, chains));
    else for (const name of explained) nat[chains?.placeOf(name) ?? -1] = chainFound.changed;
    for (const rule of rules.shared) share(shared, `${rule.table}/${rule.chain}`, rule.text, owner);
  }
  for (const [key, texts] of expected.baseRules()) {
    if (!shared.has(key)) shared.set(key, []);
    for (const text of texts) share(shared, key, text, null);
  }
  for (const [key, rules] of shared) {
    const [table = '', name = ''] = key.split('/');
    const chain = actual.chain(table, name);
    const ordered = !expected.open.has(key) && !expected.unordered.has(key);
    const place = {table, name, rules, open: expected.open.has(key)};
    append(differences, ordered ? compareOrdered(place, chain) : compareShared(place, chain));
  }
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

interface OwnedSharedRule<Owner> {
  readonly text: string;
  readonly owner: Owner | null;
  /** Its index among the expected rules of the chain. */
  readonly place: number;
}

interface SharedPlace<Owner> {
  readonly table: string;
  readonly name: string;
  readonly rules: readonly OwnedSharedRule<Owner>[];
  readonly open: boolean;
}

function share<Owner>(shared: Map<string, OwnedSharedRule<Owner>[]>, key: string, text: string, owner: Owner | null): void {
  add(shared, key, {text, owner, place: shared.get(key)?.length ?? 0});
}

function add<T>(map: Map<string, T[]>, key: string, value: T): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
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

function compareOrdered<Owner>({table, name, rules}: SharedPlace<Owner>, actual: Chain | undefined): readonly Difference<Owner>[] {
  if ((actual?.text() ?? '') === rules.map(({text}) => `-A ${name} ${text}`).join('\n')) return [];
  return compareLists(
    {table, chain: name},
    rules.map(rule => parsed(table, name, rule)),
    actual?.rules() ?? [],
    null,
  );
}

interface OwnedRule<Owner> {
  readonly rule: Rule;
  readonly owner: Owner | null;
}

function compareLists<Owner>(
  place: {readonly table: string; readonly chain: string},
  expected: readonly OwnedRule<Owner>[],
  actual: readonly Rule[],
  owner: Owner | null,
): readonly Difference<Owner>[] {
  const {pairs, differences} = pairUp(place, expected, actual, owner);
  let last = 0;
  for (const [index, rule] of pairs) {
    if (index < last) return [...differences, {...place, kind: 'reordered', rule, owner}];
    last = index;
  }
  return differences;
}

/** Pairs each actual rule with its index among the expected ones: `[index among the expected, actual rule]`, in actual order. */
function pairUp<Owner>(
  place: {readonly table: string; readonly chain: string},
  expected: readonly OwnedRule<Owner>[],
  actual: readonly Rule[],
  owner: Owner | null,
): {readonly pairs: readonly (readonly [number, Rule])[]; readonly differences: readonly Difference<Owner>[]} {
  const differences: Difference<Owner>[] = [];
  const waiting = new Map<string, number[]>();
  for (const [index, {rule}] of expected.entries()) add(waiting, comparableRule(rule), index);
  const known = new Set(waiting.keys());
  const pairs: (readonly [number, Rule])[] = [];
  let last = -1;
  for (const rule of actual) {
    const key = comparableRule(rule);
    const index = takePlace(waiting.get(key), last);
    last = index ?? last;
    if (index !== undefined) pairs.push([index, rule]);
    else differences.push({...place, kind: known.has(key) ? 'duplicate' : 'extra', rule, owner});
  }
  const missing = [...waiting.values()].flat().sort((a, b) => a - b);
  for (const index of missing) {
    const item = expected[index];
    if (item !== undefined) differences.push({...place, kind: 'missing', rule: item.rule, owner: item.owner});
  }
  return {pairs, differences};
}

/** Of equal rules, the first after the previous match, so that a missing rule is one difference and not two. */
function takePlace(places: number[] | undefined, last: number): number | undefined {
  if (places === undefined) return undefined;
  const at = places.findIndex(place => place > last);
  return places.splice(Math.max(at, 0), 1)[0];
}

/** Compares a shared chain or a base chain as a set of rules. Equal lines are paired without being parsed. */
function compareShared<Owner>({table, name, rules, open}: SharedPlace<Owner>, actual: Chain | undefined): readonly Difference<Owner>[] {
  const prefix = `-A ${name} `;
  const waiting = new Map<string, OwnedSharedRule<Owner>[]>();
  for (const rule of rules) add(waiting, prefix + rule.text, rule);
  const known = new Set(waiting.keys());
  const text = actual?.text() ?? '';
  const differing: number[] = [];
  const order = new OrderWithinOwner<Owner>();
  for (const [index, line] of (text === '' ? [] : text.split('\n')).entries()) {
    const rule = waiting.get(line)?.shift();
    if (rule === undefined) {
      if (!open || known.has(line) || namesChainOfProxy(line)) differing.push(index);
    } else if (!open) order.saw(rule, index);
  }
  const left = [...waiting.values()].flat();
  if (differing.length === 0 && left.length === 0 && order.late.length === 0) return [];
  const actualRules = actual?.rules() ?? [];
  const place = {table, chain: name};
  const found = differing.flatMap(index => actualRules[index] ?? []);
  const {differences} = pairUp(
    place,
    left.map(rule => parsed(table, name, rule)),
    found,
    null,
  );
  return [
    ...differences.map(difference =>
      difference.kind === 'extra' && known.has(difference.rule.text) ? {...difference, kind: 'duplicate' as const} : difference,
    ),
    ...order.late.flatMap(({index, owner}) =>
      actualRules[index] === undefined ? [] : [{...place, kind: 'reordered' as const, rule: actualRules[index], owner}],
    ),
  ];
}

/** A comment of a third party may contain a chain name of kube-proxy, as Weave's does. */
function namesChainOfProxy(line: string): boolean {
  return line.includes('KUBE-') && line.replace(/"(?:[^"\\]|\\.)*"/g, '""').includes('KUBE-');
}

/** Between owners order does not matter; among the rules of one owner it does, and the base rules come last. */
class OrderWithinOwner<Owner> {
  readonly late: {readonly index: number; readonly owner: Owner | null}[] = [];
  readonly #last = new Map<Owner, number>();
  #baseRulesSeen = false;

  saw({owner, place}: OwnedSharedRule<Owner>, index: number): void {
    if (owner === null) {
      this.#baseRulesSeen = true;
      return;
    }
    if (this.#baseRulesSeen || place < (this.#last.get(owner) ?? 0)) this.late.push({index, owner});
    this.#last.set(owner, place);
  }
}

function parsed<Owner>(table: string, chain: string, {text, owner}: OwnedSharedRule<Owner>): OwnedRule<Owner> {
  return {rule: parseRule(`-A ${chain} ${text}`, {table, chain, line: 0}), owner};
}
