/** Adds the items at the end of the list. `push(...items)` puts them all on the stack, where those of a large cluster do not fit. */
export function append<T>(list: T[], items: Iterable<T>): void {
  for (const item of items) list.push(item);
}
