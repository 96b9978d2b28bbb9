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
