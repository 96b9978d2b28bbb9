import type {Finding} from '../../model/finding.ts';
import type {WaitReport} from '../../model/report.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {escapeText} from '../escape.ts';
import {nodeList} from '../node-list.ts';
import {type FindingGroup, groupFindings} from '../group-findings.ts';
import {docsOf} from '../json.ts';
import type {Renderer} from '../renderer.ts';
import {secondsText} from '../seconds-text.ts';
import {styleOf} from '../style.ts';
import {verdictLine} from '../verdict-line.ts';
import {convergedText} from '../table/wait-section.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {plural} from '../../model/text/plural.ts';

/** For a comment on a pull request: the verdict, a table of the findings, and the folded evidence of each. */
export const markdown: Renderer = (report, {verbose}) => {
  const loud = report.findings.filter(({severity}) => severity !== 'info' || verbose);
  const groups = groupFindings(loud);
  const shown = thatFit(groups);
  const hidden = [
    ...(groups.length > shown.length ? [`${groups.length - shown.length} more are in the other output formats`] : []),
    ...(loud.length < report.findings.length ? [`${plural(report.findings.length - loud.length, 'info')} not shown`] : []),
  ];
  return [
    `**${prose(verdictLine(report, styleOf(false)))}**`,
    ...(report.wait === undefined ? [] : [waitTable(report.wait)]),
    ...(shown.length === 0 ? [] : [summaryTable(shown), ...shown.map(({text}) => text)]),
    ...(hidden.length === 0 ? [] : [`_${hidden.join('; ')}_`]),
  ].join('\n\n');
};

interface ShownFinding {
  /** Of the table. */
  readonly row: string;
  /** What is folded. */
  readonly text: string;
}

/** A comment on GitHub can have 65,536 characters. */
function thatFit(groups: readonly FindingGroup[]): readonly ShownFinding[] {
  let left = maxLetters;
  const shown = groups.slice(0, maxFindings).map(group => ({row: tableRow(group), text: details(group)}));
  const end = shown.findIndex(({row, text}) => {
    left -= row.length + text.length + 4;
    return left < 0;
  });
  return end < 0 ? shown : shown.slice(0, end);
}

const maxLetters = 60_000;
const maxFindings = 40;

/** How long nodes took to converge; nodes that have not converged come first. */
function waitTable({nodes, seconds, clean}: WaitReport): string {
  const slow = nodes.filter(({look}) => look !== 1).toSorted((a, b) => (b.seconds ?? Infinity) - (a.seconds ?? Infinity));
  const head = clean ? `Converged in ${secondsText(seconds)}.` : `Not converged after ${secondsText(seconds)}.`;
  if (slow.length === 0) return head;
  const rows = slow.slice(0, maxNodes).map(wait => `| ${prose(escapeText(wait.name))} | ${convergedText(wait)} |`);
  const hidden = slow.length > maxNodes ? [`| ${slow.length - maxNodes} more | |`] : [];
  return [head, '', '| node | converged |', '|---|---|', ...rows, ...hidden].join('\n');
}

const maxNodes = 20;

function summaryTable(shown: readonly ShownFinding[]): string {
  return ['| severity | finding | Service | nodes |', '|---|---|---|---|', ...shown.map(({row}) => row)].join('\n');
}

function tableRow({finding: {code, name, severity, service, known}, nodes}: FindingGroup): string {
  const cells = [
    severity + (known ? ' (known)' : ''),
    `[${code}](${docsOf(code)}) ${name}`,
    prose(serviceText(service)),
    prose(nodeList(nodes)),
  ];
  return `| ${cells.join(' | ')} |`;
}

function serviceText(service: Finding['service']): string {
  return service === undefined ? '' : escapeText(namespacedName(service));
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

/** Escapes every character with a meaning in Markdown. */
function prose(text: string): string {
  return quiet(html(text)).replace(/[\\`*_{}[\]()#+!|~]/g, '\\$&');
}

/** Prevents GitHub from turning @name, addresses and :name: into mentions, links and emoji. */
function quiet(text: string): string {
  return text
    .replaceAll('@', '@\u2060')
    .replaceAll('://', ':\u2060//')
    .replace(/www(?=\.)/gi, '$&\u2060')
    .replace(/:(?=[\w+-]+:)/g, ':\u2060');
}
