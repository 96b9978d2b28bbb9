import type {Finding, ServiceName, Severity} from '../model/finding.ts';
import {severities} from '../model/finding.ts';
import type {NodeReport, Report} from '../model/report.ts';
import {findingTexts} from './finding-text.ts';
import {markup} from './markup.ts';
import type {Renderer} from './renderer.ts';
import {styleOf} from './style.ts';

/**
 * JUnit XML, as Jenkins and GitLab read it: a test suite for each node and one for the API, a test case for each Service. What
 * reaches `--fail-on` is a failure, anything else is told in `system-out`; a node that was not read has skipped test cases.
 */
export const junit: Renderer = (report, {failOn}) => {
  const judge = (finding: Finding): boolean => !finding.known && failOn !== 'never' && rank(finding.severity) <= rank(failOn);
  const suites = suitesOf(report).map(suite => ({
    ...suite,
    cases: suite.cases.map(made => ({...made, failed: made.findings.some(judge)})),
  }));
  const all = suites.flatMap(({cases}) => cases);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="svc-trace" ${countsOf(all)}>`,
    ...suites.flatMap(({name, cases}, index) => [
      `  <testsuite name="${xml(name)}" id="${index}" ${countsOf(cases)} time="0">`,
      ...cases.flatMap(made => caseLines(name, made)),
      '  </testsuite>',
    ]),
    '</testsuites>',
  ].join('\n');
};

function rank(severity: Severity): number {
  return severities.indexOf(severity);
}

interface Case {
  readonly name: string;
  readonly findings: readonly Finding[];
  /** Why it was not looked at. */
  readonly skipped?: string;
}

interface Suite {
  readonly name: string;
  readonly cases: readonly Case[];
}

function suitesOf(report: Report): readonly Suite[] {
  const byPlace = new Map<string, Finding[]>();
  for (const finding of report.findings) {
    const key = placeKey(finding.node, finding.service);
    byPlace.set(key, [...(byPlace.get(key) ?? []), finding]);
  }
  const take = (node: string | undefined, service: ServiceName | undefined): readonly Finding[] =>
    byPlace.get(placeKey(node, service)) ?? [];
  const named = new Map(
    [...report.services, ...report.findings.flatMap(({service}) => service ?? [])].map(service => [nameOf(service), service]),
  );
  const services = [...named].map(([name, service]) => ({name, service}));
  const isFew = services.length * report.nodes.length <= mostCases;
  return [
    {
      name: 'API',
      cases: [
        {name: wholeName, findings: take(undefined, undefined)},
        ...services.map(({name, service}) => ({name, findings: take(undefined, service)})),
      ].filter(({findings}) => findings.length > 0 || report.nodes.length === 0),
    },
    ...report.nodes.map(node => ({
      name: node.name,
      cases: [
        {name: wholeName, findings: take(node.name, undefined), ...skippedOf(node)},
        ...services
          .map(({name, service}) => ({name, findings: take(node.name, service), ...skippedOf(node)}))
          .filter(({findings}) => findings.length > 0 || isFew),
      ],
    })),
  ].filter(({cases}) => cases.length > 0);
}

/** With more than this, only those with something to say have a case of their own. */
const mostCases = 100_000;

/** What concerns all Services of a node. */
const wholeName = '(the node itself)';

function placeKey(node: string | undefined, service: ServiceName | undefined): string {
  return JSON.stringify([node ?? null, service === undefined ? null : nameOf(service)]);
}

function nameOf({namespace, name}: ServiceName): string {
  return `${namespace}/${name}`;
}

function skippedOf({status, reason}: NodeReport): {readonly skipped?: string} {
  return status === 'checked' ? {} : {skipped: reason ?? 'it was not read'};
}

interface JudgedCase extends Case {
  readonly failed: boolean;
}

function countsOf(cases: readonly JudgedCase[]): string {
  const failures = cases.filter(({failed}) => failed).length;
  const skipped = cases.filter(({failed, skipped: reason}) => !failed && reason !== undefined).length;
  return `tests="${cases.length}" failures="${failures}" errors="0" skipped="${skipped}"`;
}

function caseLines(suite: string, {name, findings, failed, skipped}: JudgedCase): readonly string[] {
  const open = `    <testcase classname="${xml(suite)}" name="${xml(name)}" time="0"`;
  const text = findingTexts(findings, {style: styleOf(false), width: Infinity, most: 20}).join('\n\n');
  const [first] = findings;
  if (failed && first !== undefined) {
    const codes = [...new Set(findings.map(({code}) => code))].join(' ');
    return [`${open}>`, `      <failure type="${xml(codes)}" message="${xml(first.message)}">${xml(text)}</failure>`, '    </testcase>'];
  }
  const lines = [
    ...(skipped === undefined ? [] : [`      <skipped message="${xml(skipped)}"/>`]),
    ...(text === '' ? [] : [`      <system-out>${xml(text)}</system-out>`]),
  ];
  return lines.length === 0 ? [`${open}/>`] : [`${open}>`, ...lines, '    </testcase>'];
}

/** For attributes and text; line ends stay. */
function xml(text: string): string {
  return text.split('\n').map(markup).join('\n');
}
