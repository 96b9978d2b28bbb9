import {heldIn} from '../model/once.ts';
import type {NftChain, NftElement, NftHook, NftJsonCheck, NftJsonSink, NftSet, NftTable} from '../model/nft-ruleset.ts';
import type {Difference, RuleText} from '../model/ruleset.ts';
import {nftRule} from '../parse/nftables/nft-rule.ts';

/** The expected content of a table `kube-proxy`, grouped by owners (Service ports). */
export interface NftExpectation<Owner> {
  readonly table: string;
  readonly owners: readonly Owner[];
  objectsOf(owner: Owner): NftObjects;
  /** Chains and sets that all Service ports share, and elements without an owner. */
  readonly baseRules: readonly {readonly name: string; readonly base: NftHook | null; readonly rules: readonly string[]}[];
  readonly baseSets: readonly ExpectedSet[];
  readonly baseElements: readonly ExpectedElement[];
}

interface NftObjects {
  readonly elements: readonly ExpectedElement[];
  /** The rules of its own chains by name, as text; see `NftChain`. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /** Writes the same rules as JSON, where JSON does not escape their names: otherwise it returns false. */
  writeJson(sink: NftJsonSink): boolean;
  readonly sets: readonly ExpectedSet[];
}

interface ExpectedSet extends Pick<NftSet, 'name' | 'keyTypes' | 'valueTypes' | 'flags' | 'timeout'> {}

interface ExpectedElement extends Pick<NftElement, 'key' | 'value' | 'comment'> {
  readonly set: string;
}

/** One difference between a table and the expected one. */
export interface NftDifference<Owner> extends Difference<Owner, RuleText> {
  /** A rule, an element of a set or map, the hook of a base chain, or a set with its attributes; `chain` of the rule names it. */
  readonly what: 'rule' | 'element' | 'hook' | 'set';
  /** For an element. */
  readonly key?: string;
  readonly comment?: string | null;
}

interface NftComparison<Owner> {
  readonly differences: readonly NftDifference<Owner>[];
  /** Chains with rules that are not expected. */
  readonly unexpectedChains: readonly NftChain[];
  /** Whether the chain at this index is certainly that of a Service port, with the expected rules. Not known of text. */
  isAsExpected(place: number): boolean;
}

/** Compares a table with the expected content. Comments and the order of elements do not matter. */
export function compareNftTable<Owner>(expectation: NftExpectation<Owner>, actual: NftTable): NftComparison<Owner> {
  return new NftTableComparison(expectation, actual).compare();
}

/** A missing element, with all its owners. */
interface Claim<Owner> {
  readonly element: ExpectedElement;
  readonly owners: (Owner | null)[];
}

/** A shared set while expected elements are sought in it. */
interface SoughtSet<Owner> {
  readonly found: NftSet | undefined;
  /** The elements of the node that are correct. */
  readonly right: Set<NftElement>;
  /** By key, the expected elements that the node does not have with this value. */
  readonly claims: Map<string, Claim<Owner>>;
}

class NftTableComparison<Owner> {
  readonly #expectation: NftExpectation<Owner>;
  readonly #actual: NftTable;
  readonly #differences: NftDifference<Owner>[] = [];
  readonly #check: NftJsonCheck | null;
  /** Of the actual ones, those that are expected; not those that the check holds. */
  readonly #expectedChains = new Set<number>();
  /** By name. */
  readonly #sought = new Map<string, SoughtSet<Owner>>();
  readonly #places = new Map<string, ReadonlyMap<string, number>>();

  constructor(expectation: NftExpectation<Owner>, actual: NftTable) {
    this.#expectation = expectation;
    this.#actual = actual;
    this.#check = actual.chains.checkJson();
  }

  compare(): NftComparison<Owner> {
    const {baseRules, baseSets, baseElements, owners} = this.#expectation;
    for (const {name, base, rules} of baseRules) {
      this.#compareHook(name, base);
      this.#compareChain(name, rules, null);
    }
    const hooked = new Set(baseRules.map(({name}) => name));
    // A further one that holds rules is among the unexpected chains.
    for (const {name, base, ruleCount} of this.#actual.baseChains)
      if (base?.policy === 'drop' && ruleCount === 0 && !hooked.has(name))
        this.#note({kind: 'extra', what: 'hook', rule: this.#text(name, hookText(base), 1), owner: null});
    for (const shape of baseSets) this.#compareSet(shape, null);
    for (const element of baseElements) this.#noteElement(element, null);
    for (const owner of owners) this.#compareOwner(owner);
    for (const {name} of baseSets) this.#compareElements(name);
    return {
      differences: this.#differences,
      unexpectedChains: this.#unexpectedChains(),
      isAsExpected: place => this.#check?.isHeld(place) === true,
    };
  }

  #compareOwner(owner: Owner): void {
    const objects = this.#expectation.objectsOf(owner);
    this.#compareChains(objects, owner);
    for (const shape of objects.sets) this.#compareSet(shape, owner);
    for (const element of objects.elements) this.#noteElement(element, owner);
  }

  /** The texts of the rules are only needed where the bytes of a JSON dump are not the expected ones. */
  #compareChains(objects: NftObjects, owner: Owner): void {
    const check = this.#check;
    const names = check !== null && objects.writeJson(check) ? check.takeOthers() : objects.chains.keys();
    for (const name of names) this.#compareChain(name, objects.chains.get(name) ?? [], owner);
  }

  #unexpectedChains(): readonly NftChain[] {
    const {chains} = this.#actual;
    const found: NftChain[] = [];
    const check = this.#check;
    const nextOther = (from: number): number => (check === null ? from : check.nextOther(from));
    for (let place = nextOther(0); place < chains.size; place = nextOther(place + 1)) {
      if (this.#expectedChains.has(place) || chains.ruleCountAt(place) === 0) continue;
      const chain = chains.at(place);
      if (chain !== undefined) found.push(chain);
    }
    return found;
  }

  #compareHook(name: string, base: NftHook | null): void {
    const chain = this.#actual.chains.get(name);
    if (base === null || !(chain ?? this.#actual).complete) return;
    const found = chain?.base ?? null;
    if (found !== null && hookText(found) === hookText(base)) return;
    this.#note({kind: 'missing', what: 'hook', rule: this.#text(name, hookText(base), 0), owner: null});
    if (found !== null) this.#note({kind: 'extra', what: 'hook', rule: this.#text(name, hookText(found), 1), owner: null});
  }

  #compareChain(name: string, rules: readonly string[], owner: Owner | null): void {
    const place = this.#actual.chains.placeOf(name);
    const chain = this.#actual.chains.at(place);
    this.#expectedChains.add(place);
    if (chain?.holds(rules) === true) return;
    const expected = rules.map(text => nftRule({table: this.#actual.id, chain: name, line: 0, text}));
    const complete = chain === undefined ? this.#actual.complete : chain.complete;
    for (const {kind, item} of compareTexts(expected, chain?.rules() ?? [], comparableBody))
      if (kind !== 'missing' || complete) this.#note({kind, what: 'rule', rule: item, owner});
  }

  #compareSet(shape: ExpectedSet, owner: Owner | null): void {
    const found = this.#actual.sets.get(shape.name);
    if (!(found ?? this.#actual).complete) return;
    if (found !== undefined && shapeText(found) === shapeText(shape)) return;
    const {name} = shape;
    this.#note({kind: 'missing', what: 'set', rule: this.#text(name, shapeText(shape), 0), owner});
    if (found !== undefined) this.#note({kind: 'extra', what: 'set', rule: this.#text(name, shapeText(found), 1), owner});
  }

  /** An element that several owners claim is correct if the node has the value of one of them. */
  #noteElement(element: ExpectedElement, owner: Owner | null): void {
    const {found, right, claims} = this.#soughtSet(element.set);
    const actual = found?.elements.get(element.key);
    if (actual !== undefined && actual.value === element.value) right.add(actual);
    else if (actual === undefined || !right.has(actual)) {
      heldIn(claims, element.key, () => ({element, owners: []})).owners.push(owner);
    }
  }

  #soughtSet(name: string): SoughtSet<Owner> {
    return heldIn(this.#sought, name, () => ({found: this.#actual.sets.get(name), right: new Set(), claims: new Map()}));
  }

  #compareElements(set: string): void {
    const {found, right, claims} = this.#soughtSet(set);
    const complete = found === undefined ? this.#actual.complete : found.complete;
    for (const {element, owners} of claims.values()) {
      const actual = found?.elements.get(element.key);
      if (actual === undefined ? !complete : right.has(actual)) continue;
      for (const owner of owners) this.#noteElementDifference('missing', set, element, owner);
    }
    if (found === undefined || right.size === found.elements.size) return;
    for (const element of found.elements.values()) {
      if (right.has(element)) continue;
      for (const owner of claims.get(element.key)?.owners ?? [null]) this.#noteElementDifference('extra', set, element, owner);
    }
  }

  #noteElementDifference(
    kind: 'missing' | 'extra',
    set: string,
    {key, value, comment}: Pick<NftElement, 'key' | 'value' | 'comment'>,
    owner: Owner | null,
  ): void {
    const line = kind === 'missing' ? 0 : this.#placeOf(set, key);
    this.#note({kind, what: 'element', rule: this.#text(set, elementText({key, value}), line), key, comment, owner});
  }

  /** The position of an element in the dump. Elements have no line number. */
  #placeOf(set: string, key: string): number {
    const placesIn = () => new Map([...(this.#actual.sets.get(set)?.elements.keys() ?? [])].map((name, index) => [name, index + 1]));
    return heldIn(this.#places, set, placesIn).get(key) ?? 1;
  }

  #text(chain: string, text: string, line: number): RuleText {
    return {table: this.#expectation.table, chain, line, text};
  }

  #note(difference: NftDifference<Owner>): void {
    this.#differences.push(difference);
  }
}

function elementText({key, value}: Pick<NftElement, 'key' | 'value'>): string {
  return value === null ? key : `${key} : ${value}`;
}

function hookText({type, hook, priority, policy}: NftHook): string {
  return `type ${type} hook ${hook} priority ${priority}; policy ${policy};`;
}

function shapeText({keyTypes, valueTypes, flags, timeout}: ExpectedSet): string {
  const data = valueTypes === null ? '' : ` : ${valueTypes.join(' . ')}`;
  const more = [...(flags.length === 0 ? [] : [`flags ${flags.join(',')}`]), ...(timeout === null ? [] : [`timeout ${timeout}s`])];
  return [`type ${keyTypes.join(' . ')}${data}`, ...more].join('; ');
}

/** An item that is missing, unexpected or in another position. */
interface TextDifference<T> {
  readonly kind: Difference<unknown>['kind'];
  readonly item: T;
}

/**
 * Compares two ordered lists by the text of their items; equal items are paired in order.
 * @internal
 */
export function compareTexts<T>(expected: readonly T[], actual: readonly T[], textOf: (item: T) => string): readonly TextDifference<T>[] {
  const open = new Map<string, number>();
  for (const item of expected) open.set(textOf(item), (open.get(textOf(item)) ?? 0) + 1);
  const wanted = new Set(open.keys());
  const paired: T[] = [];
  const differences: TextDifference<T>[] = [];
  for (const item of actual) {
    const text = textOf(item);
    const left = open.get(text) ?? 0;
    if (left > 0) {
      open.set(text, left - 1);
      paired.push(item);
    } else differences.push({kind: wanted.has(text) ? 'duplicate' : 'extra', item});
  }
  const kept: T[] = [];
  for (const item of [...expected].reverse()) {
    const left = open.get(textOf(item)) ?? 0;
    if (left > 0) {
      open.set(textOf(item), left - 1);
      differences.push({kind: 'missing', item});
    } else kept.push(item);
  }
  kept.reverse();
  const moved = paired.filter((item, index) => textOf(item) !== textOf(kept[index] ?? item));
  return [...differences, ...moved.map(item => ({kind: 'reordered' as const, item}))];
}

/**
 * An interface by its index, which some patches of 1.33 and 1.34 match, is the same as by its name: where an interface was made again, nft
 * lists no name for the index that is gone.
 */
function comparableBody({body}: {readonly body: string}): string {
  return body.includes('iif ') ? body.replace(/\biif (!= )?(?=")/, 'iifname $1') : body;
}
