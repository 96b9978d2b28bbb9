/** Reads JSON from an untrusted or truncated file: invalid JSON gives undefined, not an exception. */
export function readJson(text: string): unknown {
  // Many nodes have no such file, and an exception takes long.
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
