import type {Finding, Severity} from '../model/finding.ts';
import {escapeText} from './escape.ts';
import {nodeList} from './finding-text.ts';
import {groupFindings} from './group-findings.ts';
import type {Renderer} from './renderer.ts';
import {styleOf} from './style.ts';
import {verdictLine} from './verdict-line.ts';

/** Workflow commands of GitHub Actions: an annotation for each finding, the same one on many nodes once. Harmless ones only when verbose. */
export const github: Renderer = (report, {verbose}) => {
  const loud = report.findings.filter(({severity, known}) => !known && (severity !== 'info' || verbose));
  const annotations = groupFindings(loud).map(({finding, nodes}) => annotation(finding, nodes));
  return [verdictLine(report, styleOf(false)), ...annotations].join('\n');
};

const commands = {error: 'error', warning: 'warning', info: 'notice'} as const satisfies Readonly<Record<Severity, string>>;

function annotation({code, name, severity, message, remedy}: Finding, nodes: readonly string[]): string {
  const where = nodes.length === 0 ? '' : ` on ${nodeList(nodes)}`;
  return `::${commands[severity]} title=${property(`${code} ${name}${where}`)}::${data(`${escapeText(message)}\n${escapeText(remedy)}`)}`;
}

/** As `escapeData` of @actions/core. */
function data(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

/** As `escapeProperty` of @actions/core. */
function property(text: string): string {
  return data(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}
