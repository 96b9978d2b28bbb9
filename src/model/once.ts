/** Makes a value when it is first asked for, and only once. */
export function onceAsked<T>(make: () => T): () => T {
  let made: {readonly value: T} | null = null;
  return () => {
    made ??= {value: make()};
    return made.value;
  };
}

/**
 * Computed once for each object, such as the list of all nodes: with thousands of nodes, a search through thousands of objects for each
 * would be slow.
 */
export function once<Given extends object, Result>(work: (given: Given) => Result): (given: Given) => Result {
  const results = new WeakMap<Given, {readonly value: Result}>();
  return given => {
    const known = results.get(given);
    if (known !== undefined) return known.value;
    const value = work(given);
    results.set(given, {value});
    return value;
  };
}
