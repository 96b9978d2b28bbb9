import {dump} from 'js-yaml';
import {escapeUnsafe, isUnsafe} from './escape.ts';
import type {Report} from '../model/report.ts';
import {findingObject, inPieces, reportObject} from './json.ts';
import type {Renderer, RenderOptions} from './renderer.ts';

/** The same data as `-o json`. */
export const yaml: Renderer = (report, options) => [...yamlPieces(report, options)].join('');

/** The same in pieces. */
export function yamlPieces(report: Report, options: RenderOptions): readonly string[] {
  const plain = dumpReport(report, options, dumpPlain);
  return plain.some(hasUnsafe) ? dumpReport(report, options, dumpQuoted).map(escapeUnsafe) : plain;
}

function dumpReport(report: Report, options: RenderOptions, dumpObject: (value: object) => string): readonly string[] {
  const whole = dumpObject(reportObject({...report, findings: []}, options));
  if (report.findings.length === 0) return [whole];
  // Findings come last.
  const pieces = [whole.slice(0, -' []'.length)];
  for (const [, findings] of inPieces(report.findings)) {
    const text = dumpObject({findings: findings.map(findingObject)});
    pieces.push(text.slice(text.indexOf('\n')));
  }
  return pieces;
}

/** `undefined` is left out, as JSON leaves it out. Only text in double quotes can be escaped, so all is quoted where any needs it. */
export function toYaml(value: object): string {
  const plain = dumpPlain(value);
  return hasUnsafe(plain) ? escapeUnsafe(dumpQuoted(value)) : plain;
}

function dumpPlain(value: object): string {
  return dump(asData(value), {lineWidth: -1, noRefs: true}).trimEnd();
}

function dumpQuoted(value: object): string {
  return dump(asData(value), {lineWidth: -1, noRefs: true, forceQuotes: true, quoteStyle: 'double'}).trimEnd();
}

function asData(value: object): unknown {
  return JSON.parse(JSON.stringify(value));
}

function hasUnsafe(text: string): boolean {
  return isUnsafe(text.replaceAll('\n', ''));
}
