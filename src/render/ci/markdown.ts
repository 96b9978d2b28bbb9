import {namespacedName, plural, someOf} from '../../model/text.ts';
import type {Finding} from '../../model/finding.ts';
import type {WaitReport} from '../../model/report.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {dumpLine, tableName} from '../trace-words.ts';
import {escapeText, styleOf, provenanceRows, readTime, type Renderer, type RenderOptions} from '../renderer.ts';
import {nodeList, causeBlocks, type FindingBlock, loudFindings, severityOf, spreadBlocks} from '../finding-blocks.ts';
import {blockPlaces, blockTexts, commandsByPlace, effectsText, whomAndSince} from '../block-texts.ts';
import {docsOf} from '../json.ts';
import {partialReading, secondsText, verdictLine} from '../verdict-line.ts';
import {convergedText} from '../table/sections.ts';

/** For a comment on a pull request: the verdict, a table of the findings, and the folded evidence of each. */
export const markdown: Renderer = (report, options) => {
  const {verbose} = options;
  const loud = verbose ? report.findings : loudFindings(report.findings);
  const groups = verbose ? spreadBlocks(loud) : causeBlocks(loud);
  const shown = thatFit(groups, readTime(options.provenance));
  const partial = partialReading(report);
  const hidden = [
    ...(partial === null ? [] : [prose(partial)]),
    ...(groups.length > shown.length ? [`${groups.length - shown.length} more are in the other output formats`] : []),
    ...(loud.length < report.findings.length ? [`${plural(report.findings.length - loud.length, 'info')} not shown`] : []),
  ];
  return [
    `**${prose(verdictLine(report, styleOf(false), options.provenance))}**`,
    ...(report.wait === undefined ? [] : [waitTable(report.wait)]),
    ...(shown.length === 0 ? [] : [summaryTable(shown), ...shown.map(({text}) => text)]),
    ...(hidden.length === 0 ? [] : [`_${hidden.join('; ')}_`]),
    ...provenanceMarkdown(report.scope, options),
  ].join('\n\n');
};

/** Folded, at the end: the verdict comes first. */
export function provenanceMarkdown(scope: string | undefined, options: RenderOptions): readonly string[] {
  const rows = provenanceRows(scope, options);
  if (rows.length === 0) return [];
  const table = ['| | |', '|---|---|', ...rows.map(({label, text}) => `| ${label} | ${prose(text)} |`)].join('\n');
  return ['<details><summary>Where this report comes from</summary>', table, '</details>'];
}

interface ShownFinding {
  /** Of the table. */
  readonly row: string;
  /** What is folded. */
  readonly text: string;
}

/** A comment on GitHub can have 65,536 characters. */
function thatFit(groups: readonly FindingBlock[], readAt: string | undefined): readonly ShownFinding[] {
  let left = maxLetters;
  const shown = groups.slice(0, maxFindings).map(group => ({row: tableRow(group), text: details(group, readAt)}));
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

function tableRow(block: FindingBlock): string {
  const {finding, nodes, others} = block;
  const {code, name, known} = finding;
  const services = new Set([finding, ...others.map(other => other.finding)].map(({service}) => serviceText(service)));
  const cells = [
    severityOf(block) + (known ? ' (known)' : ''),
    `[${code}](${docsOf(code)}) ${name}`,
    prose(servicesText([...services])),
    prose(nodeList(nodes)),
  ];
  return `| ${cells.join(' | ')} |`;
}

/** The first of them, and how many more. */
function servicesText([first = '', ...others]: readonly string[]): string {
  return others.length === 0 ? first : `${first} and ${others.length} more`;
}

function serviceText(service: Finding['service']): string {
  return service === undefined ? '' : escapeText(namespacedName(service));
}

function details(block: FindingBlock, readAt: string | undefined): string {
  const {finding, nodes} = block;
  const {code, remedy, expected = [], actual = []} = finding;
  const where = nodes.length === 0 ? '' : ` on ${nodeList(nodes)}`;
  const evidence = [
    ...expected.slice(0, 4).map(rule => evidenceLine('expected', rule)),
    ...actual.slice(0, 4).map(rule => evidenceLine('found', rule)),
  ];
  return [
    `<details><summary>${quiet(html(`${code}${where}: ${escapeText(blockTexts(block).join('; '))}`))}</summary>`,
    ...(evidence.length === 0 ? [] : [`<pre>\n${evidence.join('\n')}\n</pre>`]),
    ...[...whomAndSince(block, readAt).map(text => `${text}.`), ...relatedTexts(block)].map(text => prose(escapeText(text))),
    prose(escapeText(remedy)),
    ...commandsByPlace(block).map(
      ([label, texts]) => `${label}:\n\n<pre>\n${texts.map(text => html(escapeText(text))).join('\n')}\n</pre>`,
    ),
    '</details>',
  ].join('\n\n');
}

/** The other findings of the block, and those that are likely its effects. */
function relatedTexts(block: FindingBlock): readonly string[] {
  const {head, others} = blockPlaces(block);
  const effects = effectsText(block);
  return [
    ...(block.others.length === 0 ? [] : [`In all ${head}: also ${someOf(others, {max: maxListed})}.`]),
    ...(block.effects.length === 0 ? [] : [`${effects.head}: ${effects.codes} (${someOf(effects.services, {max: maxListed})}).`]),
  ];
}

const maxListed = 20;

function evidenceLine(word: string, evidence: RuleText): string {
  const {text} = evidence;
  const line = dumpLine(evidence);
  const rule = text.length > 400 ? `${text.slice(0, 400)}…` : text;
  return html(`${word.padEnd(8)} ${line > 0 ? `line ${line}: ` : ''}${escapeText(`${tableName(evidence)} ${rule}`)}`);
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
