/** Reads JSON from a file that anybody may have written or cut off: what is no JSON gives undefined, not an exception. */
export function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
