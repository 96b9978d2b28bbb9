import {heldIn} from '../model/once.ts';
import {append, pushTo} from '../model/lists.ts';
import type {Chain, ChainsByName, Difference, OwnerRules, Rule, Ruleset, SharedRule} from '../model/ruleset.ts';
import {comparableRule} from '../parse/iptables/comparable-rule.ts';
import {parseRule} from '../parse/iptables/rule.ts';

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
  return compareLists(rules, actual?.rules() ?? [], owner);
}

/** Names of chains as `table/chain`; see RulesetExpectation. */
interface KindsOfChains {
  readonly open: ReadonlySet<string>;
  readonly unordered: ReadonlySet<string>;
}

/** A chain with rules of many owners. `expect` takes the expected rules in their order; an owner of null means a base rule. */
interface SharedChain<Owner> {
  expect(text: string, owner: Owner | null, line?: string): void;
  differences(): readonly Difference<Owner>[];
}

/** The chains in which more than one owner has rules. They are compared while these are rendered. */
class SharedChains<Owner> {
  readonly #kinds: KindsOfChains;
  readonly #actual: Ruleset;
  /** By table and name: a key of both would have to be put together for each rule. */
  readonly #chains = new Map<string, Map<string, SharedChain<Owner>>>();
  readonly #inOrder: SharedChain<Owner>[] = [];

  constructor(kinds: KindsOfChains, actual: Ruleset) {
    this.#kinds = kinds;
    this.#actual = actual;
  }

  /** The next expected rules, all of one owner. */
  expect(rules: readonly SharedRule[], owner: Owner): void {
    for (const {table, chain, text, line} of rules) this.chain(table, chain).expect(text, owner, line);
  }

  chain(table: string, name: string): SharedChain<Owner> {
    return this.#chains.get(table)?.get(name) ?? this.#add(table, name);
  }

  differences(): readonly Difference<Owner>[] {
    return this.#inOrder.flatMap(chain => chain.differences());
  }

  #add(table: string, name: string): SharedChain<Owner> {
    const key = `${table}/${name}`;
    const isOpen = this.#kinds.open.has(key);
    const place = {table, name, isOpen, actual: this.#actual.chain(table, name)};
    const chain = isOpen || this.#kinds.unordered.has(key) ? new UnorderedChain<Owner>(place) : new OrderedChain<Owner>(place);
    heldIn(this.#chains, table, () => new Map<string, SharedChain<Owner>>()).set(name, chain);
    this.#inOrder.push(chain);
    return chain;
  }
}

interface Place {
  readonly table: string;
  readonly name: string;
  readonly isOpen: boolean;
  readonly actual: Chain | undefined;
}

interface OwnedText<Owner> {
  readonly text: string;
  readonly owner: Owner | null;
}

class OrderedChain<Owner> implements SharedChain<Owner> {
  readonly #place: Place;
  readonly #rules: OwnedText<Owner>[] = [];

  constructor(place: Place) {
    this.#place = place;
  }

  expect(text: string, owner: Owner | null): void {
    this.#rules.push({text, owner});
  }

  differences(): readonly Difference<Owner>[] {
    const {name, actual} = this.#place;
    if ((actual?.text() ?? '') === this.#rules.map(({text}) => `-A ${name} ${text}`).join('\n')) return [];
    const rules = this.#rules.map(rule => parsed(this.#place, rule));
    return compareLists(rules, actual?.rules() ?? [], null);
  }
}

/** An expected rule that no line has; `order` is its index among the expected rules. */
interface MissingText<Owner> extends OwnedText<Owner> {
  readonly order: number;
}

/**
 * A chain whose rules are compared as a set. An expected rule takes the first line with its text that no earlier one took, and is not kept:
 * the rules of a large cluster would fill the memory only to be found right.
 */
class UnorderedChain<Owner> implements SharedChain<Owner> {
  readonly #place: Place;
  readonly #prefix: string;
  readonly #lines: readonly string[];
  /** The first line with a text, and for a line the next one with the same text: few texts occur twice. */
  readonly #firstAt = new Map<string, number>();
  readonly #nextAt = new Map<number, number>();
  /** For each line, whose rule it is, and the index of this among the expected rules. */
  readonly #owners: (Owner | null | undefined)[];
  readonly #orders: Int32Array;
  readonly #missing: MissingText<Owner>[] = [];
  #expected = 0;

  constructor(place: Place) {
    const text = place.actual?.text() ?? '';
    this.#place = place;
    this.#prefix = `-A ${place.name} `;
    this.#lines = text === '' ? [] : text.split('\n');
    this.#owners = new Array<undefined>(this.#lines.length).fill(undefined);
    this.#orders = new Int32Array(this.#lines.length);
    for (let at = this.#lines.length - 1; at >= 0; at--) this.#firstAt.set(this.#lines[at] ?? '', at);
    if (this.#firstAt.size < this.#lines.length) this.#noteRepeated();
  }

  #noteRepeated(): void {
    this.#firstAt.clear();
    for (let at = this.#lines.length - 1; at >= 0; at--) {
      const line = this.#lines[at] ?? '';
      const next = this.#firstAt.get(line);
      if (next !== undefined) this.#nextAt.set(at, next);
      this.#firstAt.set(line, at);
    }
  }

  expect(text: string, owner: Owner | null, line = this.#prefix + text): void {
    const order = this.#expected++;
    let at = this.#firstAt.get(line);
    while (at !== undefined && this.#owners[at] !== undefined) at = this.#nextAt.get(at);
    if (at === undefined) {
      this.#missing.push({text, owner, order});
      return;
    }
    this.#owners[at] = owner;
    this.#orders[at] = order;
  }

  differences(): readonly Difference<Owner>[] {
    const extra = this.#extraLines();
    const late = this.#place.isOpen ? [] : this.#lateLines();
    if (extra.length === 0 && this.#missing.length === 0 && late.length === 0) return [];
    const actualRules = this.#place.actual?.rules() ?? [];
    const missing = this.#missingInOrder();
    const wanted = missing.map(rule => parsed(this.#place, rule));
    const others = extra.flatMap(at => actualRules[at] ?? []);
    const {differences} = pairUp(wanted, others, null);
    const missingLines = new Set(missing.map(({text}) => this.#prefix + text));
    const isExpected = (line: string): boolean => missingLines.has(line) || this.#isTaken(line);
    return [
      ...differences.map(difference =>
        difference.kind === 'extra' && isExpected(difference.rule.text) ? {...difference, kind: 'duplicate' as const} : difference,
      ),
      ...late.flatMap(({at, owner}) => (actualRules[at] === undefined ? [] : [{kind: 'reordered' as const, rule: actualRules[at], owner}])),
    ];
  }

  /** Rules with the same text are listed together, where the first of them is expected. */
  #missingInOrder(): readonly MissingText<Owner>[] {
    const groups = [...Map.groupBy(this.#missing, ({text}) => text).values()];
    return groups.sort((a, b) => this.#firstOrder(a) - this.#firstOrder(b)).flat();
  }

  #firstOrder([first]: readonly MissingText<Owner>[]): number {
    const {text, order} = first ?? {text: '', order: 0};
    const at = this.#firstAt.get(this.#prefix + text);
    return at === undefined ? order : (this.#orders[at] ?? order);
  }

  /** Whether a line with this text is expected: the first one is taken first. */
  #isTaken(line: string): boolean {
    const at = this.#firstAt.get(line);
    return at !== undefined && this.#owners[at] !== undefined;
  }

  /** In a base chain, third-party rules are not compared. */
  #extraLines(): readonly number[] {
    const extra: number[] = [];
    for (let at = 0; at < this.#lines.length; at++) {
      if (this.#owners[at] !== undefined) continue;
      const line = this.#lines[at] ?? '';
      if (!this.#place.isOpen || this.#isTaken(line) || namesChainOfProxy(line)) extra.push(at);
    }
    return extra;
  }

  /** Between owners order does not matter; among the rules of one owner it does, and the base rules come last. */
  #lateLines(): readonly {readonly at: number; readonly owner: Owner}[] {
    const late: {readonly at: number; readonly owner: Owner}[] = [];
    const last = new Map<Owner, number>();
    let baseRulesSeen = false;
    for (let at = 0; at < this.#lines.length; at++) {
      const owner = this.#owners[at];
      if (owner === null) baseRulesSeen = true;
      if (owner === null || owner === undefined) continue;
      const order = this.#orders[at] ?? 0;
      if (baseRulesSeen || order < (last.get(owner) ?? 0)) late.push({at, owner});
      last.set(owner, order);
    }
    return late;
  }
}

/** A comment of a third party may contain a chain name of kube-proxy, as Weave's does. */
function namesChainOfProxy(line: string): boolean {
  return line.includes('KUBE-') && line.replace(/"(?:[^"\\]|\\.)*"/g, '""').includes('KUBE-');
}

function parsed<Owner>({table, name}: Place, {text, owner}: OwnedText<Owner>): OwnedRule<Owner> {
  return {rule: parseRule(`-A ${name} ${text}`, {table, chain: name, line: 0}), owner};
}

interface OwnedRule<Owner> {
  readonly rule: Rule;
  readonly owner: Owner | null;
}

/** Compares the rules of one chain in which order matters. */
function compareLists<Owner>(
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
function pairUp<Owner>(expected: readonly OwnedRule<Owner>[], actual: readonly Rule[], owner: Owner | null) {
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
