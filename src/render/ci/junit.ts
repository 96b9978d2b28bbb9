import {type Finding, severities, type Severity} from '../../model/finding.ts';
import type {NodeReport, NodeWait, Report} from '../../model/report.ts';
import {causeBlocks} from '../finding-blocks.ts';
import {type Cause, outdatedNodes} from '../headline.ts';
import {findingTexts} from '../table/finding-text.ts';
import {markup} from '../markup.ts';
import {originOf, provenanceRows, readTime, type Renderer, type RenderOptions, styleOf} from '../renderer.ts';
import {waitText} from '../table/sections.ts';
import {namespacedName} from '../../model/text.ts';

/**
 * JUnit XML for Jenkins and GitLab: a test suite for each node and one for the API, a test case for each Service. A finding that reaches
 * `--fail-on` is a failure, and what could not be read is an error: both fail a pipeline. The Services of a node that was not checked are
 * skipped. Everything else is in `system-out`.
 */
export const junit: Renderer = (report, options) => {
  const {failOn} = options;
  const older = failOn === 'never' ? new Map<string, Cause>() : outdatedNodes(report, readTime(options.provenance));
  const analyze = (finding: Finding): boolean => !finding.known && failOn !== 'never' && rank(finding.severity) <= rank(failOn);
  const suites = suitesOf(report).map(suite => ({
    ...suite,
    cases: suite.cases.map(made => ({
      ...made,
      failing: made.findings.filter(analyze),
      outdated: made.name === nodeName ? older.get(suite.name) : undefined,
      isOutdated: older.has(suite.name),
    })),
  }));
  const all = suites.flatMap(({cases}) => cases);
  const timestamp = timestampOf(originOf(report.scope, options)?.readAt);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="svc-trace" ${countsOf(all)}>`,
    ...suites.flatMap(({name, cases}, index) => [
      `  <testsuite name="${attribute(name)}" id="${index}" ${countsOf(cases)} skipped="${skippedIn(cases)}" time="${timeOf(cases)}"${timestamp}>`,
      ...(index === 0 ? propertyLines(report, options) : []),
      ...cases.flatMap(made => caseLines(name, made)),
      '  </testsuite>',
    ]),
    '</testsuites>',
  ].join('\n');
};

/** By the schema a time without a zone; it is UTC. What is no time is left out. */
function timestampOf(readAt: string | undefined): string {
  const time = Date.parse(readAt ?? '');
  return Number.isNaN(time) ? '' : ` timestamp="${new Date(time).toISOString().slice(0, 19)}"`;
}

/** Where the report comes from: of all suites, said at the first. */
function propertyLines(report: Report, options: RenderOptions): readonly string[] {
  const rows = provenanceRows(report.scope, options);
  if (rows.length === 0) return [];
  const properties = rows.map(({label, text}) => `      <property name="${attribute(label)}" value="${attribute(text)}"/>`);
  return ['    <properties>', ...properties, '    </properties>'];
}

function rank(severity: Severity): number {
  return severities.indexOf(severity);
}

interface Case {
  readonly name: string;
  readonly findings: readonly Finding[];
  /** Why it could not be checked. */
  readonly error?: string;
  /** Why it was not checked. */
  readonly skipped?: string;
  /** The findings that others likely follow from. */
  readonly causes?: ReadonlyMap<Finding, Finding>;
  /** How long it took to converge, with `--wait`. */
  readonly wait?: NodeWait | undefined;
}

function suitesOf(report: Report): readonly {readonly name: string; readonly cases: readonly Case[]}[] {
  const places = new Map([...Map.groupBy(report.findings, ({node}) => node)].map(([node, findings]) => [node, byService(findings)]));
  const on = (node: string | undefined): FindingsByService => places.get(node) ?? new Map();
  const services = [...new Set([...report.services, ...report.findings.flatMap(({service}) => service ?? [])].map(namespacedName))];
  const order = new Map(services.map((name, index) => [name, index]));
  const isFew = services.length * report.nodes.length <= maxCases;
  // Without a look at each Service on each node, of which there may be millions.
  const shownOn = (found: FindingsByService): readonly string[] =>
    isFew ? services : [...found.keys()].flatMap(name => name ?? []).sort((a, b) => (order.get(a) ?? 0) - (order.get(b) ?? 0));
  const causes = causesOf(report.findings);
  const waits = new Map(report.wait?.nodes.map(wait => [wait.name, wait]));
  return [
    {
      name: 'API',
      cases: [
        {name: apiName, findings: on(undefined).get(null) ?? [], ...unreadApi(on(undefined).get(null) ?? [])},
        ...services.map(name => ({name, findings: on(undefined).get(name) ?? []})),
      ].filter(({findings}) => findings.length > 0 || report.nodes.length === 0),
    },
    ...report.nodes.map(node => ({
      name: node.name,
      cases: [
        {name: nodeName, findings: on(node.name).get(null) ?? [], ...unreadNode(node), wait: waits.get(node.name)},
        ...shownOn(on(node.name)).map(name => ({name, findings: on(node.name).get(name) ?? [], ...skippedOf(node), causes})),
      ],
    })),
  ].filter(({cases}) => cases.length > 0);
}

/** For each finding of a Service that likely follows from another finding on its node: that one. */
function causesOf(findings: readonly Finding[]): ReadonlyMap<Finding, Finding> {
  const nodes = Map.groupBy(findings, ({node}) => node);
  const pairs = [...nodes.values()].flatMap(ofNode =>
    causeBlocks(ofNode).flatMap(({finding: cause, effects, reason}) =>
      (reason === 'cause' ? effects : []).map(({finding}) => [finding, cause] as const),
    ),
  );
  return new Map(pairs);
}

/** Above this number, only Services with findings have a test case of their own. */
const maxCases = 100_000;

/** Findings that concern all Services, of the cluster and of a node. */
const apiName = '(the API itself)';
const nodeName = '(the node itself)';

/** By `namespace/name`; null for those of no Service. */
type FindingsByService = ReadonlyMap<string | null, readonly Finding[]>;

function byService(findings: readonly Finding[]): FindingsByService {
  return Map.groupBy(findings, ({service}) => (service === undefined ? null : namespacedName(service)));
}

function unreadApi(findings: readonly Finding[]): Pick<Case, 'error'> {
  const unread = findings.filter(({code, severity}) => code === 'ST901' && severity !== 'info');
  return unread.length === 0 ? {} : {error: unread.map(({message}) => message).join('; ')};
}

/** A node without kube-proxy is not unread: there is nothing to read. */
function unreadNode(node: NodeReport): Pick<Case, 'error' | 'skipped'> {
  return node.status === 'unread' ? {error: node.reason ?? 'the node was not checked'} : skippedOf(node);
}

function skippedOf({status, reason}: NodeReport): Pick<Case, 'skipped'> {
  return status === 'checked' ? {} : {skipped: reason ?? 'the node was not checked'};
}

interface EvaluatedCase extends Case {
  readonly failing: readonly Finding[];
  /** Of a node: the findings of its Services show that its rules are older than the API. */
  readonly outdated: Cause | undefined;
  /** Of a Service of such a node. */
  readonly isOutdated: boolean;
}

/** The states of a test case, in order of precedence. */
function outcomeOf({failing, outdated, error, skipped}: EvaluatedCase): 'failure' | 'error' | 'skipped' | 'passed' {
  if (failing.length > 0 || outdated !== undefined) return 'failure';
  if (error !== undefined) return 'error';
  return skipped === undefined ? 'passed' : 'skipped';
}

function countsOf(cases: readonly EvaluatedCase[]): string {
  const count = (outcome: string): number => cases.filter(made => outcomeOf(made) === outcome).length;
  return `tests="${cases.length}" failures="${count('failure')}" errors="${count('error')}"`;
}

/** The root element cannot have one. */
function skippedIn(cases: readonly EvaluatedCase[]): number {
  return cases.filter(made => outcomeOf(made) === 'skipped').length;
}

/** In seconds. */
function timeOf(cases: readonly EvaluatedCase[]): string {
  return String(Math.round(cases.reduce((sum, {wait}) => sum + (wait?.seconds ?? 0), 0) * 1000) / 1000);
}

function caseLines(suite: string, made: EvaluatedCase): readonly string[] {
  const {name, findings, failing, outdated, isOutdated, error = '', skipped = '', wait, causes} = made;
  const [first] = failing;
  const cause = first === undefined ? undefined : causes?.get(first);
  const follows = cause === undefined ? '' : ` (likely from ${cause.code} ${cause.name})`;
  const open = `    <testcase classname="${attribute(suite)}" name="${attribute(name)}" time="${timeOf([made])}"`;
  // What explains a hundred findings of a node is told once, with what to do: CI keeps files of hundreds of megabytes for nobody.
  const isExplained = name !== nodeName && (isOutdated || (cause !== undefined && failing.every(finding => causes?.has(finding))));
  const text = isExplained
    ? findings.map(({code, message}) => `${code} ${message}`).join('\n')
    : findingTexts(findings, {style: styleOf(false), width: Infinity, max: 20, spread: true}).join('\n\n');
  const why = outdated === undefined ? [] : [outdated.message];
  const told = [...(wait === undefined ? [] : [waitText(wait)]), ...why, ...(text === '' ? [] : [text])].join('\n\n');
  const codes = failing.length === 0 ? 'outdated' : [...new Set(failing.map(({code}) => code))].join(' ');
  const outcome = {
    failure: `      <failure type="${attribute(codes)}" message="${attribute(first === undefined ? (outdated?.message ?? '') : `${first.message}${follows}`)}">${xml(told)}</failure>`,
    error: `      <error type="ST901" message="${attribute(error)}">${xml(told || error)}</error>`,
    skipped: `      <skipped message="${attribute(skipped)}"/>`,
    passed: '',
  };
  const kind = outcomeOf(made);
  const isTold = kind === 'failure' || kind === 'error' || told === '';
  const lines = [...(kind === 'passed' ? [] : [outcome[kind]]), ...(isTold ? [] : [`      <system-out>${xml(told)}</system-out>`])];
  return lines.length === 0 ? [`${open}/>`] : [`${open}>`, ...lines, '    </testcase>'];
}

/** A log takes a line of a name that begins with `::` for a command: in attributes, XML has another spelling of line ends. */
function attribute(text: string): string {
  return xml(text).replaceAll('\n', '&#10;');
}

/** For text; line ends stay. */
function xml(text: string): string {
  return text.split('\n').map(markup).join('\n');
}
