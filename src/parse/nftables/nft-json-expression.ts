import type {BinaryOperator} from '../../model/nft-ruleset.ts';
import {type Fields, isObject} from '../attempt.ts';

/** How the constants beside a selector are spelled: unchanged, in quotes, as a mark of eight digits, or as any hex number. */
export type ValueStyle = 'plain' | 'quoted' | 'mark' | 'hex';

/** Converts an expression of `nft -j` to the text of `nft list`. Unknown expressions are kept as JSON. */
export function expressionText(value: unknown, style: readonly ValueStyle[] = ['plain']): string {
  if (value === undefined || value === null) return '';
  if (typeof value !== 'object') return constantText(value, style[0]);
  if (!isObject(value)) {
    return listOf(value)
      .map(part => expressionText(part, style))
      .join(',');
  }
  const [name, content] = onlyEntry(value);
  const writeFields = Object.hasOwn(fieldWriters, name) ? fieldWriters[name] : undefined;
  if (writeFields !== undefined) return isObject(content) ? writeFields(content, style) : '';
  const write = Object.hasOwn(writers, name) ? writers[name] : undefined;
  return write === undefined ? JSON.stringify(value) : write(content, style);
}

/** The styles of the values compared with an expression; for a concatenation, one for each part. */
export function stylesOf(value: unknown): readonly ValueStyle[] {
  const [name, content] = onlyEntry(value);
  if (name === 'concat') return listOf(content).flatMap(stylesOf);
  if (isBinary(name)) return stylesOf(listOf(content)[0]);
  if (name === 'payload') return [isObject(content) && content['base'] !== undefined ? 'hex' : 'plain'];
  const key = isObject(content) ? asText(content['key']) : '';
  if (key === 'mark') return ['mark'];
  const isName = (name === 'meta' && /^(?:.*(?:if|ifname|brname|ifkind)|time|hour|day)$/.test(key)) || (name === 'ct' && key === 'helper');
  return [isName ? 'quoted' : 'plain'];
}

export function isBinary(name: string): name is BinaryOperator {
  return name === '&' || name === '|' || name === '^' || name === '<<' || name === '>>';
}

function constantText(value: unknown, style: ValueStyle = 'plain'): string {
  if (typeof value === 'string') return style === 'quoted' && !value.startsWith('@') ? `"${value}"` : value;
  if (typeof value === 'boolean') return value ? 'exists' : 'missing';
  if (typeof value === 'number' && style === 'mark') return `0x${value.toString(16).padStart(8, '0')}`;
  return typeof value === 'number' && style === 'hex' ? `0x${value.toString(16)}` : String(value);
}

/** Those whose content is an object. */
const fieldWriters: Readonly<Record<string, (fields: Fields, style: readonly ValueStyle[]) => string>> = {
  payload: ({base, offset, len, protocol, field}) =>
    base === undefined ? `${text(protocol)} ${text(field)}` : `@${text(base)},${text(offset)},${text(len)}`,
  meta: ({key}) => (/^[io]if(?:name|group)?$/.test(asText(key)) ? asText(key) : `meta ${asText(key)}`),
  ct: ({key, dir, family}) => ['ct', dir, family, key].map(text).filter(Boolean).join(' '),
  fib: ({result, flags}) => `fib ${listOf(flags).map(text).join(' . ')} ${text(result)}`,
  numgen: ({mode, mod, offset}) => `numgen ${text(mode)} mod ${text(mod)}${offsetText(offset)}`,
  jhash: ({mod, expr, seed, offset}) =>
    `jhash ${expressionText(expr)} mod ${text(mod)}${seed === undefined ? '' : ` seed 0x${Number(seed).toString(16)}`}${offsetText(offset)}`,
  symhash: ({mod, offset}) => `symhash mod ${text(mod)}${offsetText(offset)}`,
  rt: ({key, family}) => ['rt', family, key].map(text).filter(Boolean).join(' '),
  socket: ({key}) => `socket ${text(key)}`,
  exthdr: ({name, field}) => (field === undefined ? `exthdr ${text(name)}` : `${text(name)} ${text(field)}`),
  'ip option': ({name, field}) => ['ip option', name, field].map(text).filter(Boolean).join(' '),
  'tcp option': ({name, field}) => ['tcp option', name, field].map(text).filter(Boolean).join(' '),
  prefix: ({addr, len}) => `${expressionText(addr)}/${text(len)}`,
  map: ({key, data}) => `${expressionText(key)} map ${expressionText(data, stylesOf(key))}`,
  elem: ({val, timeout, comment}, style) =>
    `${expressionText(val, style)}${timeout === undefined ? '' : ` timeout ${text(timeout)}s`}${comment === undefined ? '' : ` comment "${text(comment)}"`}`,
  goto: ({target}) => `goto ${text(target)}`,
  jump: ({target}) => `jump ${text(target)}`,
};

/** The others: lists, and words. */
const writers: Readonly<Record<string, (content: unknown, style: readonly ValueStyle[]) => string>> = {
  concat: (content, style) =>
    listOf(content)
      .map((part, index) => expressionText(part, [style[index] ?? 'plain']))
      .join(' . '),
  range: (content, style) =>
    listOf(content)
      .map(part => expressionText(part, style))
      .join('-'),
  set: (content, style) =>
    `{ ${listOf(content)
      .map(part => elementText(part, style))
      .join(', ')} }`,
  ...Object.fromEntries(['accept', 'drop', 'return', 'continue'].map(word => [word, () => word])),
  ...Object.fromEntries(['&', '|', '^', '<<', '>>'].map(operator => [operator, (content: unknown) => binaryText(operator, content)])),
};

/** An element of a set is a value, one of a map a pair. */
function elementText(element: unknown, style: readonly ValueStyle[]): string {
  if (!Array.isArray(element)) return expressionText(element, style);
  const [key, value] = listOf(element);
  return `${expressionText(key, style)} : ${expressionText(value)}`;
}

/** Newer versions of nft print a chain of the same operator as one list. */
function binaryText(operator: string, content: unknown): string {
  const parts = listOf(content);
  const style = stylesOf(parts[0]);
  return parts.map((part, index) => expressionText(part, index === 0 ? ['plain'] : style)).join(` ${operator} `);
}

function text(value: unknown): string {
  return value === undefined || value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function offsetText(offset: unknown): string {
  return offset === undefined || offset === 0 ? '' : ` offset ${text(offset)}`;
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : value === undefined || value === null ? [] : [value];
}

export function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Name and content of `{"name": content}`; an empty name for any other value. */
export function onlyEntry(value: unknown): readonly [name: string, content: unknown] {
  const name = isObject(value) ? Object.keys(value)[0] : undefined;
  return name === undefined || !isObject(value) ? ['', null] : [name, value[name] ?? null];
}
