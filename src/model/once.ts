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
export function once<Subject extends object, Result>(work: (subject: Subject) => Result): (subject: Subject) => Result {
  const results = new WeakMap<Subject, {readonly value: Result}>();
  return subject => {
    const known = results.get(subject);
    if (known !== undefined) return known.value;
    const value = work(subject);
    results.set(subject, {value});
    return value;
  };
}
