import type {Finding} from '../model/finding.ts';
import type {Report} from '../model/report.ts';
import type {RuleText} from '../model/ruleset.ts';
import {escapeUnsafe} from './escape.ts';
import {originOf} from './provenance-rows.ts';
import type {Renderer, RenderOptions} from './renderer.ts';

export const schemaVersion = 1;

/** The JSON of `check`, as docs/check.schema.json describes it. */
export const json: Renderer = (report, options) => [...jsonPieces(report, options)].join('');

/** The same in pieces: the text of a large report is hundreds of megabytes, and would be in memory beside the report. */
export function* jsonPieces(report: Report, options: RenderOptions): Iterable<string> {
  const whole = toJson(reportObject({...report, findings: []}, options));
  // Findings come last.
  yield report.findings.length === 0 ? whole : whole.slice(0, -'[]\n}'.length);
  for (const [start, findings] of inPieces(report.findings)) {
    const text = toJson({findings: findings.map(findingObject)});
    yield `${start === 0 ? '[' : ','}\n${text.slice('{\n  "findings": [\n'.length, -'\n  ]\n}'.length)}`;
  }
  if (report.findings.length > 0) yield '\n  ]\n}';
}

/** Findings that are rendered at once, with the index of the first. Their text is short enough to be dropped soon by the garbage collector. */
export function* inPieces(findings: readonly Finding[]): Iterable<readonly [number, readonly Finding[]]> {
  for (let start = 0; start < findings.length; start += pieceLength) yield [start, findings.slice(start, start + pieceLength)];
}

const pieceLength = 32;

/** JSON leaves characters unchanged that a terminal interprets or that change the text direction; here they are escaped. */
export function toJson(value: object): string {
  return escapeUnsafe(JSON.stringify(value, null, 2));
}

export function reportObject(report: Report, options: Pick<RenderOptions, 'provenance'>): object {
  const {tool, summary, wait, nodes, findings} = report;
  const origin = originOf(report.scope, options);
  return {schemaVersion, tool, ...(origin === null ? {} : {origin}), summary, wait, nodes, findings: findings.map(findingObject)};
}

export function findingObject(finding: Finding): object {
  const {
    code,
    name,
    severity,
    known,
    node,
    family,
    service,
    port,
    entry,
    endpoint,
    message,
    expected,
    actual,
    remedy,
    command,
    endpoints,
    affects,
    senders,
  } = finding;
  return {
    ...{code, name, severity, known, node, family, service, port, endpoint, endpoints, affects, senders, message, remedy, command},
    ...(entry === undefined
      ? {}
      : {entry: {kind: entry.kind, ...(entry.address === null ? {} : {address: entry.address}), port: entry.port}}),
    ...(expected === undefined || expected.length === 0 ? {} : {expected: expected.map(({text}) => text)}),
    ...(actual === undefined || actual.length === 0 ? {} : {actual: actual.map(place)}),
    docs: docsOf(code),
  };
}

export function place({table, chain, line, text}: RuleText): object {
  return {table, chain, line, rule: text};
}

export function docsOf(code: string): string {
  return `https://github.com/svc-trace/svc-trace/blob/main/docs/checks/${code}.md`;
}
