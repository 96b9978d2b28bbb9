import type {NodeReport, Report, Summary} from '../model/report.ts';
import type {Style} from './style.ts';

/** The first line of every output for people: it answers the question. */
export function verdictLine(report: Report, style: Style): string {
  const {summary, nodes} = report;
  const scope = `${count(summary.services, 'Service')} on ${count(summary.nodesChecked, 'node')}`;
  const unread = summary.nodesUnread > 0 ? `; ${count(summary.nodesUnread, 'node')} could not be read` : '';
  if (summary.errors + summary.warnings === 0 && unread === '' && summary.verdict === 'ok')
    return style.green(nodes.length === 0 ? okWithoutNodes(summary) : `OK: ${scope}, all programmed as they should be`);
  const faulty = new Set(report.findings.filter(({severity, node}) => severity === 'error' && node !== undefined).map(({node}) => node));
  const tally = [tallyOf(summary.errors, 'error'), tallyOf(summary.warnings, 'warning')].filter(text => text !== '').join(', ');
  if (summary.errors > 0)
    return style.red(
      `FAULTY: ${tally} on ${faulty.size} of ${count(summary.nodesChecked, 'node')} (${count(summary.services, 'Service')})${unread}`,
    );
  if (summary.verdict === 'incomplete')
    return style.yellow(`INCOMPLETE: ${whatIsMissing(nodes, report)}; of what was read (${scope}) nothing fails`);
  return style.yellow(`OK with ${tally}: ${scope}, and no packet is lost`);
}

function okWithoutNodes(summary: Summary): string {
  return `OK: ${count(summary.services, 'Service')} in the API; no node was looked at`;
}

function whatIsMissing(nodes: readonly NodeReport[], {findings}: Report): string {
  const unread = nodes.filter(({status}) => status === 'unread').map(({name}) => name);
  if (unread.length === 0) return findings.find(({code}) => code.startsWith('ST9'))?.message ?? 'something could not be read';
  return `${count(unread.length, 'node')} could not be checked (${unread.slice(0, 3).join(', ')}${unread.length > 3 ? ', …' : ''})`;
}

export function count(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`;
}

function tallyOf(number: number, thing: string): string {
  return number === 0 ? '' : count(number, thing);
}
