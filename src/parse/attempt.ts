import type {PathTree} from '../model/path-tree.ts';

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

/** In characters. A shorter text fills no memory, whatever it holds. */
const longText = 4 << 20;

/** Characters of a text for each object and list in it. Programs print twenty; each takes fifty bytes of memory, whatever is in it. */
const minShare = 8;

/** Reads JSON of whatever size. Throws a SyntaxError where it is none, or holds more than any program prints. */
export function parseJson(text: string): unknown {
  if (text.includes(tooDeep)) throw new SyntaxError('it has lists within lists, more than any program prints');
  if (text.length > longText && hasMoreNested(text, text.length / minShare)) throw new SyntaxError('it consists of brackets');
  return JSON.parse(text);
}

/** Searching takes a tenth of the time of looking at each character, which takes as long as parsing does. */
function hasMoreNested(text: string, most: number): boolean {
  let count = 0;
  for (const bracket of ['{', '[']) {
    for (let at = text.indexOf(bracket); at !== -1 && count <= most; at = text.indexOf(bracket, at + 1)) count++;
  }
  return count > most;
}

/** Reads JSON from an untrusted or truncated file: invalid JSON gives undefined, not an exception. */
export function readJson(text: string): unknown {
  // Many nodes have no such file, and an exception takes long.
  if (text === '') return undefined;
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** The fields of an object in JSON: none where it is no JSON, or no object. */
export function readFields(text: string): Fields {
  return asFields(readJson(text));
}

/** The fields of a value of JSON or YAML: none where it is no object. */
export function asFields(value: unknown): Fields {
  return isObject(value) ? value : {};
}

export type Fields = Readonly<Record<string, unknown>>;

/** The fields that are needed of an object of JSON, by their paths, and what each is. */
export type NeededFields = 'string' | 'number' | 'object' | PathTree<NeededFields>;

/** Whether a value of JSON has all of these fields. */
export function hasFields(value: unknown, fields: NeededFields): boolean {
  if (typeof fields === 'string') return fields === 'object' ? isObject(value) : typeof value === fields;
  const {'[]': items, '*': values, ...own} = fields;
  if (items !== undefined) return Array.isArray(value) && value.every(item => hasFields(item, items));
  if (!isObject(value) || (values !== undefined && !Object.values(value).every(one => hasFields(one, values)))) return false;
  return Object.entries(own).every(([name, of]) => hasFields(value[name], of));
}

/** Whether JSON is an object with fields. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
