import type {NodeReport, Report, Summary} from '../model/report.ts';
import {escapeText} from './escape.ts';
import type {Style} from './style.ts';

/** The first line of every output for people: it answers the question. */
export function verdictLine(report: Report, style: Style): string {
  const {summary} = report;
  if (summary.errors > 0) return style.red(`FAULTY: ${faults(report)}`);
  if (summary.verdict === 'incomplete') return style.yellow(`INCOMPLETE: ${whatIsMissing(report)}; ${scope(summary)}, nothing read so far fails`);
  if (summary.warnings > 0) return style.yellow(`OK with ${count(summary.warnings, 'warning')}: ${scope(summary)}`);
  if (summary.services === 0) return style.yellow(`NOTHING CHECKED: no Service is what was asked for${nothingRead(summary)}`);
  return style.green(`OK: ${okay(report)}`);
}

function faults({summary, findings}: Report): string {
  const faulty = new Set(findings.flatMap(({severity, node}) => (severity === 'error' && node !== undefined ? [node] : [])));
  return [
    `${count(summary.errors, 'error')} on ${faulty.size} of ${count(summary.nodesChecked, 'node')}`,
    ...(summary.warnings > 0 ? [count(summary.warnings, 'warning')] : []),
    `${count(summary.services, 'Service')} looked at`,
    ...(summary.nodesUnread > 0 ? [`${count(summary.nodesUnread, 'node')} not read`] : []),
  ].join(', ');
}
