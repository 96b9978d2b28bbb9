/** A growing list of numbers, 8 bytes each. */
export class NumberList {
  #values = new Float64Array(16);
  #length = 0;

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const grown = new Float64Array(this.#length * 2);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values[this.#length++] = value;
  }

  sorted(): Float64Array {
    return this.#values.slice(0, this.#length).sort();
  }
}
