/** A file of a bundle may contain anything: a parse error is a result, not a failure of the run. */
export function attempt<T>(parse: () => T): T | Error {
  try {
    return parse();
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}

/** No program prints it, and a text that is nothing else takes seventy times its size to parse. */
const tooDeep = '['.repeat(64);

/** Reads JSON from an untrusted or truncated file: invalid JSON gives undefined, not an exception. */
export function readJson(text: string): unknown {
  // Many nodes have no such file, and an exception takes long.
  if (text === '' || text.includes(tooDeep)) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
