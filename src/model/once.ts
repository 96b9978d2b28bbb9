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

/** Made once for each object and question about it: a set that packets are looked up in may have a hundred thousand elements. */
export function keptWith<T>(subject: object, question: string, make: () => T): T {
  return heldIn(answersOf(subject), question, make) as T;
}

const answersOf = once((_: object) => new Map<string, unknown>());

/** What a map holds for a key; made and put there if it holds nothing. */
export function heldIn<K, T>(map: {get(key: K): T | undefined; set(key: K, value: T): unknown}, key: K, make: (key: K) => T): T {
  const known = map.get(key);
  if (known !== undefined) return known;
  const value = make(key);
  map.set(key, value);
  return value;
}
