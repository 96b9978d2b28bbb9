/** The chains of a table by name, in the order in which a dump has them. Each becomes an object when something asks for it. */
export abstract class ChainList<C> {
  readonly #names: string[] = [];
  readonly #places = new Map<string, number>();
  readonly #objects = new Map<number, C>();

  /** Makes the object of a chain. */
  protected abstract create(place: number): C;

  get size(): number {
    return this.#names.length;
  }

  get(name: string): C | undefined {
    return this.at(this.placeOf(name));
  }

  has(name: string): boolean {
    return this.#places.has(name);
  }

  keys(): Iterable<string> {
    return this.#names;
  }

  *values(): IterableIterator<C> {
    for (let place = 0; place < this.size; place++) yield this.#object(place);
  }

  *startingWith(...prefixes: readonly string[]): IterableIterator<C> {
    for (let place = 0; place < this.size; place++) if (this.#startsWithAny(place, prefixes)) yield this.#object(place);
  }

  *notStartingWith(...prefixes: readonly string[]): IterableIterator<C> {
    for (let place = 0; place < this.size; place++) if (!this.#startsWithAny(place, prefixes)) yield this.#object(place);
  }

  placeOf(name: string): number {
    return this.#places.get(name) ?? -1;
  }

  at(place: number): C | undefined {
    return place < 0 || place >= this.size ? undefined : this.#object(place);
  }

  nameOf(place: number): string {
    return this.#names[place] ?? '';
  }

  /** The place of a chain, which is the next one if there is no chain of this name. */
  protected placeFor(name: string): number {
    const known = this.#places.get(name);
    if (known !== undefined) return known;
    const place = this.#names.push(name) - 1;
    this.#places.set(name, place);
    return place;
  }

  /** The chain of this name, which is new if there is none. */
  protected openChain(name: string): C {
    return this.#object(this.placeFor(name));
  }

  /** Drops the object of a chain: the next who asks gets a new one. */
  protected forget(place: number): void {
    this.#objects.delete(place);
  }

  #object(place: number): C {
    const known = this.#objects.get(place);
    if (known !== undefined) return known;
    const chain = this.create(place);
    this.#objects.set(place, chain);
    return chain;
  }

  #startsWithAny(place: number, prefixes: readonly string[]): boolean {
    const name = this.nameOf(place);
    return prefixes.some(prefix => name.startsWith(prefix));
  }
}

/** The numbers stored for each chain, in a row: where its name is in the bytes, its first run of rules, and one more of the format. */
export const NAME = 0;
export const START = 1;
export const END = 2;
export const COUNT = 3;
export const ROW = 5;

/**
 * The chains of one table in the bytes of a dump, in its order. A large node has a quarter of a million, most of which are compared as text
 * and never used again. So a chain is a row of offsets into these bytes, and becomes an object on demand.
 */
export abstract class ChainRows<C, Run extends {readonly count: number}> extends ChainList<C> {
  readonly bytes: Buffer;
  /** Of all chains. */
  ruleCount = 0;
  protected rows = new Int32Array(64 * ROW);
  /** Further runs of a chain. They are rare: rules of one chain are nearly always consecutive. */
  protected readonly laterRuns = new Map<number, Run[]>();
  /** The place of the chain that was entered last. */
  protected last = -1;
  protected firstIncomplete = Number.POSITIVE_INFINITY;

  constructor(bytes: Buffer) {
    super();
    this.bytes = bytes;
  }

  isComplete(place: number): boolean {
    return place < this.firstIncomplete;
  }

  ruleCountAt(place: number): number {
    const later = this.laterRuns.get(place) ?? [];
    return later.reduce((sum, {count}) => sum + count, this.cell(place, COUNT));
  }

  protected enterAt(name: string, start: number): number {
    const before = this.size;
    const place = this.placeFor(name);
    if (place < before) return place;
    if (this.rows.length < (place + 1) * ROW) {
      const more = new Int32Array(2 * this.rows.length);
      more.set(this.rows);
      this.rows = more;
    }
    this.rows[place * ROW + NAME] = start;
    return place;
  }

  protected cell(place: number, column: number): number {
    return this.rows[place * ROW + column] ?? 0;
  }
}
