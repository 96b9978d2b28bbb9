/** A file of a bundle may contain anything: a parse error is a result, not a failure of the run. */
export function attempt<T>(parse: () => T): T | Error {
  try {
    return parse();
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}
