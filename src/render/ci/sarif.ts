import type {Log, Notification, ReportingDescriptor} from 'sarif';
import {checks} from '../../checks/index.ts';
import type {Finding} from '../../model/finding.ts';
import type {Report} from '../../model/report.ts';
import {docsOf, toJson} from '../json.ts';
import type {Renderer} from '../renderer.ts';
import {levels, sarifResults} from './sarif-results.ts';

/**
 * SARIF 2.1.0 for GitHub code scanning and other dashboards: a rule for each code found, a result for each finding. Contains every field
 * that GitHub requires.
 */
export const sarif: Renderer = report => {
  const findings = report.findings.slice(0, maxResults);
  const codes = [...new Set(findings.map(({code}) => code))].sort();
  const log: Log = {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            ...{name: report.tool.name, semanticVersion: report.tool.version},
            informationUri: 'https://github.com/svc-trace/svc-trace',
            rules: codes.map(ruleOf),
          },
        },
        columnKind: 'utf16CodeUnits',
        invocations: [
          {
            executionSuccessful: report.summary.verdict !== 'incomplete' && report.summary.nodesUnread === 0,
            ...notificationsOf(report.findings.slice(maxResults)),
          },
        ],
        results: sarifResults(report, findings, codes),
        ...(report.wait === undefined ? {} : {properties: {wait: report.wait}}),
      },
    ],
  };
  return toJson(log);
};

/** GitHub refuses a file with more results in a run. The most severe findings come first. */
const maxResults = 25_000;

function ruleOf(code: string): ReportingDescriptor {
  const check = checks.find(known => known.code === code);
  const {name = code, summary = code, remedy = summary, severity = 'warning'} = check ?? {};
  return {
    ...{id: code, name, helpUri: docsOf(code)},
    shortDescription: {text: summary},
    fullDescription: {text: `${summary}. ${remedy}`},
    help: {text: remedy, markdown: `${remedy}\n\n[${code}](${docsOf(code)})`},
    defaultConfiguration: {level: levels[severity]},
    properties: {
      tags: ['kubernetes', 'kube-proxy'],
      precision: 'very-high',
      'problem.severity': {error: 'error', warning: 'warning', info: 'recommendation'}[severity],
    },
  };
}

function notificationsOf(leftOut: Report['findings']): {toolExecutionNotifications?: Notification[]} {
  if (leftOut.length === 0) return {};
  const text = `${leftOut.length} more findings do not fit in this file of at most ${maxResults}: ${byCode(leftOut)}.`;
  return {toolExecutionNotifications: [{level: 'warning', message: {text}}]};
}

function byCode(findings: readonly Finding[]): string {
  const counts = new Map<string, number>();
  for (const {code} of findings) counts.set(code, (counts.get(code) ?? 0) + 1);
  return [...counts].map(([code, count]) => `${count} of ${code}`).join(', ');
}
