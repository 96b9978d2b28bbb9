/** What a bundle's file holds is anybody's text: that it cannot be parsed is data, not a failure. */
export function attempt<T>(parse: () => T): T | Error {
  try {
    return parse();
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}
