import type {Report, Summary} from '../model/report.ts';
import {escapeText} from './escape.ts';
import {nodeList} from './table/finding-text.ts';
import {secondsText} from './seconds-text.ts';
import type {Style} from './style.ts';
import {plural} from '../model/text/plural.ts';

/** The first line of every output for people: it answers the question. */
export function verdictLine(report: Report, style: Style): string {
  const known = report.findings.filter(finding => finding.known && finding.severity !== 'info').length;
  return (
    verdictOf(report, style) +
    waitOf(report) +
    sampleOf(report.summary) +
    (known === 0 ? '' : style.dim(`; ${known} known from the baseline`))
  );
}

/** How long it was waited for, and for whom in vain. */
function waitOf({wait, findings}: Report): string {
  if (wait === undefined) return '';
  const time = `after ${secondsText(wait.seconds)}`;
  if (wait.clean) return wait.looks > 1 ? `; ${time}` : '';
  const late = wait.nodes.filter(({look, waitedFor}) => look === undefined && waitedFor !== false).map(({name}) => name);
  if (late.length === 0) return '';
  const stuck = late.filter(name => findings.some(({code, node}) => code === 'ST505' && node === name));
  const why = stuck.length === 0 ? '' : `; kube-proxy does not keep up on ${nodeList(stuck)} (ST505)`;
  return `; ${time} not as it should be on ${nodeList(late)}${why}`;
}

function sampleOf({sampledFrom}: Summary): string {
  return sampledFrom === undefined ? '' : `; only a sample of the ${plural(sampledFrom, 'node')} was looked at`;
}

function verdictOf(report: Report, style: Style): string {
  const {summary} = report;
  if (summary.errors > 0) return style.red(`FAULTY: ${faults(report)}`);
  if (summary.verdict === 'incomplete')
    return style.yellow(`INCOMPLETE: ${whatIsMissing(report)}; of what was read (${scope(summary)}) nothing fails`);
  if (summary.warnings > 0) return style.yellow(`OK with ${plural(summary.warnings, 'warning')}: ${scope(summary)}`);
  if (summary.services > 0 && report.services.length === 0)
    return style.green(`OK: ${plural(summary.services, 'Service')}, none of them for kube-proxy to serve`);
  if (summary.services === 0) return style.yellow('NOTHING TO CHECK: no Service is in what was asked for');
  if (report.nodes.length === 0) return style.yellow(`OK as far as the API goes: ${scope(summary)}; no node was looked at`);
  if (report.findings.some(({known, severity}) => known && severity !== 'info'))
    return style.green(`OK but for what is known: ${scope(summary)}`);
  return style.green(`OK: ${scope(summary)}, all programmed as they should be`);
}

function faults({summary, findings}: Report): string {
  const faulty = new Set(
    findings.flatMap(({severity, node, known}) => (severity === 'error' && !known && node !== undefined ? [node] : [])),
  );
  const where = summary.nodesChecked > 0 ? ` on ${faulty.size} of ${plural(summary.nodesChecked, 'node')}` : '';
  const warnings = summary.warnings > 0 ? `, ${plural(summary.warnings, 'warning')}` : '';
  const unread = summary.nodesUnread > 0 ? `; ${plural(summary.nodesUnread, 'node')} could not be read` : '';
  return `${plural(summary.errors, 'error')}${where}${warnings} (${plural(summary.services, 'Service')})${unread}`;
}

function scope({services, nodesChecked}: Summary): string {
  return `${plural(services, 'Service')}${nodesChecked > 0 ? ` on ${plural(nodesChecked, 'node')}` : ''}`;
}

function whatIsMissing({nodes, findings}: Report): string {
  const unread = nodes.filter(({status}) => status === 'unread').map(({name}) => escapeText(name));
  if (unread.length === 0) return escapeText(findings.find(({code}) => code.startsWith('ST9'))?.message ?? 'something could not be read');
  return `${plural(unread.length, 'node')} could not be checked (${unread.slice(0, 3).join(', ')}${unread.length > 3 ? ', …' : ''})`;
}
