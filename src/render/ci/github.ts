import {severities, type Severity} from '../../model/finding.ts';
import type {Report} from '../../model/report.ts';
import {escapeText, styleOf, readTime, type Renderer} from '../renderer.ts';
import {nodeList, causeBlocks, type FindingBlock, freshFindings, severityOf} from '../finding-blocks.ts';
import {blockPlaces, blockTexts, effectsText, whomAndSince} from '../block-texts.ts';
import {verdictLine} from '../verdict-line.ts';
import {waitText} from '../table/sections.ts';
import {plural} from '../../model/text.ts';

/**
 * Workflow commands of GitHub Actions: an annotation for each cause, with what follows from it. Infos only when verbose.
 * GitHub drops more than ten annotations of a level in a step, so the tenth counts the others, which are in the log.
 */
export const github: Renderer = (report, options) => {
  const {verbose} = options;
  const loud = verbose ? report.findings.filter(({known}) => known === undefined) : freshFindings(report.findings);
  const blocks = causeBlocks(loud);
  const readAt = readTime(options.provenance);
  const ofSeverity = Map.groupBy(blocks, severityOf);
  const lines = severities.flatMap(severity => levelLines(severity, ofSeverity.get(severity) ?? [], readAt));
  return [logLine(verdictLine(report, styleOf(false), options.provenance)), ...waitLines(report), ...lines].join('\n');
};

function waitLines({wait}: Report): readonly string[] {
  const slow = (wait?.nodes ?? []).filter(({look}) => look !== 1);
  return slow.map(node => logLine(`${waitText(node)} on ${escapeText(node.name)}`));
}

const maxPerLevel = 10;

function levelLines(severity: Severity, groups: readonly FindingBlock[], readAt: string | undefined): readonly string[] {
  const annotation = (block: FindingBlock): string => annotationOf(block, readAt);
  if (groups.length <= maxPerLevel) return groups.map(annotation);
  const rest = groups.slice(maxPerLevel - 1);
  const title = `${plural(rest.length, `more ${severity}`)}; see the log of this step`;
  const message = rest.slice(0, maxCounted).map(titleOf).join('\n');
  const more = rest.length > maxCounted ? `\nand ${rest.length - maxCounted} more` : '';
  return [
    ...groups.slice(0, maxPerLevel - 1).map(annotation),
    command(severity, title, message + more),
    ...rest.map(group => logLine(`${titleOf(group)}: ${escapeText(group.finding.message)}`)),
  ];
}

const maxCounted = 50;

const commands = {error: 'error', warning: 'warning', info: 'notice'} as const satisfies Readonly<Record<Severity, string>>;

function annotationOf(block: FindingBlock, readAt: string | undefined): string {
  const {remedy} = block.finding;
  const {head, codes} = effectsText(block);
  const related = [
    ...whomAndSince(block, readAt),
    ...(block.others.length === 0 ? [] : [`in all ${blockPlaces(block).head}`]),
    ...(block.effects.length === 0 ? [] : [`${head}: ${codes}`]),
  ];
  return command(severityOf(block), titleOf(block), [...blockTexts(block), ...related, remedy].map(escapeText).join('\n'));
}

function titleOf({finding: {code, name}, nodes}: FindingBlock): string {
  return `${code} ${name}${nodes.length === 0 ? '' : ` on ${nodeList(nodes)}`}`;
}

function command(severity: Severity, title: string, message: string): string {
  const short = title.length > maxTitleLength ? `${title.slice(0, maxTitleLength - 1)}…` : title;
  // Follows `escapeProperty` of @actions/core.
  return `::${commands[severity]} title=${data(short).replaceAll(':', '%3A').replaceAll(',', '%2C')}::${data(message)}`;
}

const maxTitleLength = 255;

/** Follows `escapeData` of @actions/core. */
function data(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

/** A line that must not be a command: the runner interprets `##[…]` anywhere in a line. */
function logLine(text: string): string {
  return text.replaceAll('##[', '## [');
}
