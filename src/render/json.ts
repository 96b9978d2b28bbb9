import {dump} from 'js-yaml';
import {type Finding, hitsText} from '../model/finding.ts';
import type {Report} from '../model/report.ts';
import type {RuleText} from '../model/ruleset.ts';
import {type Cause, causesOf, outdatedNodes} from './headline.ts';
import {headlineOf} from './verdict-line.ts';
import {withNotRefused} from './trace-words.ts';
import {originOf, readTime, type Renderer, type RenderOptions, escapeUnsafe, isUnsafe} from './renderer.ts';
import type {Entry} from '../model/service-port.ts';
import {type AgentResult, nodeResultVersion} from '../model/node-result.ts';

export const schemaVersion = 1;

/** The JSON of `check`, as docs/check.schema.json describes it. */
export const json: Renderer = (report, options) => [...jsonPieces(report, options)].join('');

/** The same in pieces: the text of a large report is hundreds of megabytes, and would be in memory beside the report. */
export function* jsonPieces(report: Report, options: RenderOptions): Iterable<string> {
  const whole = toJson({...reportHead(report, options), findings: []});
  // Findings come last.
  yield report.findings.length === 0 ? whole : whole.slice(0, -'[]\n}'.length);
  for (const [start, findings] of inPieces(saidFindings(report))) {
    const text = toJson({findings: findings.map(findingObject)});
    yield `${start === 0 ? '[' : ','}\n${text.slice('{\n  "findings": [\n'.length, -'\n  ]\n}'.length)}`;
  }
  if (report.findings.length > 0) yield '\n  ]\n}';
}

/** Findings that are rendered at once, with the index of the first. Their text is short enough to be dropped soon by the garbage collector. */
function* inPieces(findings: readonly Finding[]): Iterable<readonly [number, readonly Finding[]]> {
  for (let start = 0; start < findings.length; start += pieceLength) yield [start, findings.slice(start, start + pieceLength)];
}

const pieceLength = 32;

/** JSON leaves characters unchanged that a terminal interprets or that change the text direction; here they are escaped. */
export function toJson(value: object): string {
  return escapeUnsafe(JSON.stringify(value, null, 2));
}

export function reportObject(report: Report, options: Pick<RenderOptions, 'provenance'>): object {
  return {...reportHead(report, options), findings: saidFindings(report).map(findingObject)};
}

/** All but the findings, of which there may be hundreds of thousands. */
function reportHead(report: Report, options: Pick<RenderOptions, 'provenance'>): object {
  const {tool, summary, wait, nodes} = report;
  const origin = originOf(report.scope, options);
  const {verdict, ...counts} = summary;
  const causes = causesOf(report, readTime(options.provenance)).map(causeObject);
  const told = {verdict, headline: headlineOf(report, options.provenance), causes, ...counts};
  const outdated = outdatedNodes(report);
  const states = nodes.map(node => (outdated.has(node.name) ? {...node, state: 'outdated'} : node));
  return {schemaVersion, tool, origin: origin ?? undefined, summary: told, wait, nodes: states};
}

function causeObject({code, nodes, services, since, message}: Cause): object {
  return {code, nodes, services, since, message};
}

/** As the table has them. */
function saidFindings({findings, leftOut}: Report): readonly Finding[] {
  return withNotRefused(findings, leftOut);
}

export function findingObject(finding: Finding): object {
  const {node, entry, expected, actual, hits} = finding;
  return {
    code: finding.code,
    name: finding.name,
    severity: finding.severity,
    known: finding.known,
    node,
    family: finding.family,
    service: finding.service,
    port: finding.port,
    endpoint: finding.endpoint,
    endpoints: finding.endpoints,
    pod: finding.pod,
    affects: finding.affects,
    senders: finding.senders,
    share: finding.share,
    since: finding.since,
    message: finding.message,
    remedy: finding.remedy,
    hits: hits === undefined ? undefined : {text: hitsText(hits, node ?? ''), pods: hits.pods, share: hits.share},
    command: finding.command,
    entry: entry === undefined ? undefined : entryFields(entry),
    ...(expected === undefined || expected.length === 0 ? {} : {expected: expected.map(({text}) => text)}),
    ...(actual === undefined || actual.length === 0 ? {} : {actual: actual.map(place)}),
    docs: docsOf(finding.code),
  };
}

export function place({table, chain, line, backend, text}: RuleText): object {
  return {table, chain, line, backend, rule: text};
}

export function docsOf(code: string): string {
  return `https://github.com/svc-trace/svc-trace/blob/main/docs/checks/${code}.md`;
}

/** The same data as `-o json`. */
export const yaml: Renderer = (report, options) => [...yamlPieces(report, options)].join('');

/** The same in pieces. */
export function yamlPieces(report: Report, options: RenderOptions): readonly string[] {
  const plain = dumpReport(report, options, dumpPlain);
  return plain.some(hasUnsafe) ? dumpReport(report, options, dumpQuoted).map(escapeUnsafe) : plain;
}

function dumpReport(report: Report, options: RenderOptions, dumpObject: (value: object) => string): readonly string[] {
  const whole = dumpObject({...reportHead(report, options), findings: []});
  if (report.findings.length === 0) return [whole];
  // Findings come last.
  const pieces = [whole.slice(0, -' []'.length)];
  for (const [, findings] of inPieces(saidFindings(report))) {
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

/** A node port has no address. */
export function entryFields({kind, address, port}: Entry): object {
  return {kind, address: address ?? undefined, port};
}

/**
 * The JSON of an agent's `/result`, as docs/node-result.schema.json describes it.
 * The agent's clock is in milliseconds since 1970; the trouble is why the latest check failed, null if it succeeded.
 */
export function nodeResultText(result: AgentResult, now: number, trouble: string | null): string {
  const {tool, report, findings, problems, proxy, judgedAt, seconds, intervalSeconds, seen, apiCurrentAt} = result;
  const object = {
    schemaVersion: nodeResultVersion,
    tool,
    now: timeOf(now),
    judgedAt: timeOf(judgedAt),
    seconds,
    intervalSeconds,
    trouble: trouble ?? undefined,
    api: {currentAt: timeOf(apiCurrentAt), seen},
    node: report,
    proxy,
    findings: findings.map(resultFinding),
    problems,
  };
  return escapeUnsafe(JSON.stringify(object));
}

function timeOf(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/** As in the JSON of `check`, with what other code reads in place of the message, and a place for missing rules, too. */
function resultFinding(finding: Finding): object {
  const {expected = [], variant, gist} = finding;
  return {...findingObject(finding), variant, gist, ...(expected.length === 0 ? {} : {expected: expected.map(place)})};
}
