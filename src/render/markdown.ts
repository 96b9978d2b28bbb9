import type {Finding} from '../model/finding.ts';
import type {RuleText} from '../model/ruleset.ts';
import {escapeText} from './escape.ts';
import {nodeList} from './finding-text.ts';
import {type FindingGroup, groupFindings} from './group-findings.ts';
import {docsOf} from './json.ts';
import type {Renderer} from './renderer.ts';
import {styleOf} from './style.ts';
import {count, verdictLine} from './verdict-line.ts';

/** For a comment on a pull request: the verdict, a table of the findings, and what each rests on, folded. */
export const markdown: Renderer = (report, {verbose}) => {
  const loud = report.findings.filter(({severity}) => severity !== 'info' || verbose);
  const groups = groupFindings(loud);
  const shown = groups.slice(0, most);
  const hidden = [
    ...(groups.length > shown.length ? [`${groups.length - shown.length} more are in the other output formats`] : []),
    ...(loud.length < report.findings.length ? [`${count(report.findings.length - loud.length, 'harmless finding')} not shown`] : []),
  ];
  return [
    `**${prose(verdictLine(report, styleOf(false)))}**`,
    ...(shown.length === 0 ? [] : [summaryTable(shown), ...shown.map(details)]),
    ...(hidden.length === 0 ? [] : [`_${hidden.join('; ')}_`]),
  ].join('\n\n');
};

/** A comment on GitHub may be 65,536 characters long. */
const most = 40;

function summaryTable(groups: readonly FindingGroup[]): string {
  const rows = groups.map(({finding, nodes}) => {
    const {code, name, severity, service, known} = finding;
    const cells = [
      severity + (known ? ' (known)' : ''),
      `[${code}](${docsOf(code)}) ${name}`,
      prose(serviceText(service)),
      prose(nodeList(nodes)),
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return ['| severity | finding | Service | nodes |', '|---|---|---|---|', ...rows].join('\n');
}

function serviceText(service: Finding['service']): string {
  return service === undefined ? '' : escapeText(`${service.namespace}/${service.name}`);
}

function details({finding, nodes}: FindingGroup): string {
  const {code, message, remedy, expected = [], actual = []} = finding;
  const where = nodes.length === 0 ? '' : ` on ${nodeList(nodes)}`;
  const evidence = [
    ...expected.slice(0, 4).map(rule => evidenceLine('expected', rule)),
    ...actual.slice(0, 4).map(rule => evidenceLine('found', rule)),
  ];
  return [
    `<details><summary>${quiet(html(`${code}${where}: ${escapeText(message)}`))}</summary>`,
    ...(evidence.length === 0 ? [] : [`<pre>\n${evidence.join('\n')}\n</pre>`]),
    `${prose(escapeText(remedy))}`,
    '</details>',
  ].join('\n\n');
}

function evidenceLine(word: string, {table, line, text}: RuleText): string {
  const rule = text.length > 400 ? `${text.slice(0, 400)}…` : text;
  return html(`${word.padEnd(8)} ${line > 0 ? `line ${line}: ` : ''}${escapeText(`${table} ${rule}`)}`);
}

function html(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** Every character that Markdown could take for its own is escaped. */
function prose(text: string): string {
  return quiet(html(text)).replace(/[\\`*_{}[\]()#+!|~]/g, '\\$&');
}

/** No @name calls anybody. */
function quiet(text: string): string {
  return text.replaceAll('@', '@\u2060');
}
