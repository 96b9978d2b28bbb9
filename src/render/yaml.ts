import {dump} from 'js-yaml';
import {escapeUnsafe, isUnsafe} from './escape.ts';
import {reportObject} from './json.ts';
import type {Renderer} from './renderer.ts';

/** The same data as `-o json`. */
export const yaml: Renderer = (report, options) => toYaml(reportObject(report, options));

/** `undefined` is left out, as JSON leaves it out. Only text in double quotes can be escaped, so all is quoted where any needs it. */
export function toYaml(value: object): string {
  const data: unknown = JSON.parse(JSON.stringify(value));
  const plain = dump(data, {lineWidth: -1, noRefs: true}).trimEnd();
  if (!isUnsafe(plain.replaceAll('\n', ''))) return plain;
  return escapeUnsafe(dump(data, {lineWidth: -1, noRefs: true, forceQuotes: true, quoteStyle: 'double'}).trimEnd());
}
