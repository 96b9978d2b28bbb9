/** Makes a value when it is first asked for, and only once. */
export function onceAsked<T>(make: () => T): () => T {
  let made: {readonly value: T} | null = null;
  return () => {
    made ??= {value: make()};
    return made.value;
  };
}
