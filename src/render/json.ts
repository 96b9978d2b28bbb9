import type {Finding} from '../model/finding.ts';
import type {Report} from '../model/report.ts';
import type {RuleText} from '../model/ruleset.ts';
import {escapeUnsafe} from './escape.ts';
import {originOf} from './provenance-rows.ts';
import type {Renderer, RenderOptions} from './renderer.ts';

export const schemaVersion = 1;

/** The JSON of `check`, as docs/check.schema.json describes it. */
export const json: Renderer = (report, options) =>
  toJson({...reportObject({...report, findings: []}, options), findings: report.findings.map(asJson)});

/** The object of a finding is made while it is written: for all findings of a large report at once they would need hundreds of megabytes. */
function asJson(finding: Finding): object {
  return {toJSON: () => findingObject(finding)};
}

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
  const {code, name, severity, known, node, family, service, port, entry, endpoint, message, expected, actual, remedy, command, endpoints} =
    finding;
  return {
    ...{code, name, severity, known, node, family, service, port, endpoint, endpoints, message, remedy, command},
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
