import {load} from 'js-yaml';

/**
 * Reads YAML from an untrusted file. Aliases let a few lines stand for a value without end: a value with more parts than the text has
 * characters is refused. Throws a YAMLException or an Error.
 */
export function readYaml(text: string): unknown {
  const value = load(text);
  let left = text.length + 1;
  const count = (part: unknown): void => {
    if (--left < 0) throw new Error('its aliases stand for more than the file holds');
    if (typeof part === 'object' && part !== null) Object.values(part).forEach(count);
  };
  count(value);
  return value;
}
