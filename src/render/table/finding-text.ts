import {docsOf} from '../json.ts';
import {plural, someOf} from '../../model/text.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {bySeverity, escapeText, type Style, styleOf, proseWidth, wrap} from '../renderer.ts';
import {nodeList, causeBlocks, type FindingBlock, type FindingGroup, loudFindings, spreadBlocks} from '../finding-blocks.ts';
import {blockPlaces, blockTexts, effectsText, groupCommands, hitsOf, programOf, sinceOf} from '../block-texts.ts';
import type {Finding} from '../../model/finding.ts';
import type {Report} from '../../model/report.ts';
import {dumpLine, tableName} from '../trace-words.ts';

interface FindingTextOptions {
  readonly style: Style;
  readonly width: number;
  /** How many blocks of one code are shown; the rest are counted. */
  readonly max: number;
  /** A block for each finding, without grouping by cause. */
  readonly spread: boolean;
  /** When the nodes were read (RFC 3339), if known. */
  readonly readAt?: string | undefined;
}

/**
 * Errors and warnings, or `all`. Where a few Services have none, infos about their objects are the whole answer, such as a target port that no
 * container declares.
 */
export function shownFindings({findings, services}: Report, all: boolean): readonly Finding[] {
  if (all) return findings;
  const loud = loudFindings(findings);
  // That a node was not read is no answer.
  if (services.length > fewServices || loud.some(({code}) => !code.startsWith('ST9'))) return loud;
  return findings.filter(({code, service, severity}) => severity !== 'info' || (service !== undefined && code.startsWith('ST1')));
}

const fewServices = 3;

/** Findings as blocks of text. A remedy is shown once, below the last block that it applies to. */
export function findingTexts(findings: readonly Finding[], {style, width, max, spread, readAt}: FindingTextOptions): readonly string[] {
  const blocks = spread ? spreadBlocks(findings) : causeBlocks(findings);
  const seen = new Map<string, number>();
  const shown = blocks.filter(({finding}) => {
    const nth = (seen.get(finding.code) ?? 0) + 1;
    seen.set(finding.code, nth);
    return nth <= max;
  });
  return shown.map((block, index) => {
    const {code, remedy, command} = block.finding;
    const next = shown[index + 1]?.finding;
    const hidden = next?.code === code ? 0 : (seen.get(code) ?? 0) - max;
    return [
      ...findingLines(block, style, width),
      ...hitLines(block, {style, width, readAt}),
      ...othersLines(block, style, width),
      ...effectLines(block, style, width),
      ...(next?.code === code && next.remedy === remedy
        ? command === next.command
          ? []
          : commandLines(block, style, width)
        : adviceLines(block, style, width)),
      ...ruleLines(block, style, width),
      ...(hidden > 0 ? [style.dim(`  and ${hidden} more of ${code}; -o wide shows them`)] : []),
    ].join('\n');
  });
}

/** Since when, and whom. */
function hitLines(block: FindingBlock, {style, width, readAt}: Pick<FindingTextOptions, 'style' | 'width' | 'readAt'>): readonly string[] {
  const since = sinceOf(block, readAt);
  const hits = hitsOf(block);
  return [
    ...(since === null
      ? []
      : wrap(`${programOf(block)} stopped applying changes ${since}`, proseWidth(width), `  ${style.dim('since   ')}  `)),
    ...(hits === null ? [] : wrap(escapeText(hits), proseWidth(width), `  ${style.dim('hits    ')}  `)),
  ];
}

function othersLines(block: FindingBlock, style: Style, width: number): readonly string[] {
  if (block.others.length === 0) return [];
  const {head, others} = blockPlaces(block);
  // Other faults of the same subject, such as its entries, are in -o wide.
  const also = others.length === 0 ? '; -o wide shows each' : `: also ${listText(others)}`;
  return wrap(escapeText(`${head}${also}`), proseWidth(width), `  ${style.dim('in all  ')}  `);
}

function effectLines(block: FindingBlock, style: Style, width: number): readonly string[] {
  if (block.effects.length === 0) return [];
  const {head, codes, services} = effectsText(block);
  return wrap(
    escapeText(`${head}: ${codes} (${listText(services)})`),
    proseWidth(width),
    `  ${block.reason === 'cause' ? style.red('effects ') : style.dim('also    ')}  `,
  );
}

function listText(names: readonly string[]): string {
  return `${someOf(names, {max: maxListed})}; -o wide shows each`;
}

const maxListed = 8;

/** The subject, the cause where only the rules show it, and the message. */
function findingLines(block: FindingBlock, style: Style, width: number): readonly string[] {
  const {finding, nodes} = block;
  const {code, name, severity, known} = finding;
  const where = nodes.length === 0 ? '' : `  ${nodeList(nodes)}${finding.family === 'IPv6' ? ' (IPv6)' : ''}`;
  const texts = blockTexts(block).map(escapeText);
  return [
    ...wrap(
      `${bySeverity(style, severity)(`${style.link(code, docsOf(code))} ${severity}`)}${known ? ' (known)' : ''}  ${style.bold(name)}${where}`,
      width,
      '',
    ),
    ...texts.flatMap((text, at) => wrap(at === 0 && block.reason !== 'cause' ? style.bold(text) : text, proseWidth(width), '  ')),
  ];
}

/** The rules come last: whom it hits and what to do matter more. */
function ruleLines({finding: {expected = [], actual = []}, nodes}: FindingBlock, style: Style, width: number): readonly string[] {
  const on = nodes.length > 1 ? `${escapeText(nodes[0] ?? '')} ` : '';
  const hasColor = style.red('x') !== 'x';
  const marked = (rule: RuleText, other: RuleText | undefined, label: string, place: string | null): readonly string[] => {
    const isSameChain = other !== undefined && other.table === rule.table && other.chain === rule.chain;
    const text = markDifferences(ruleText(rule), isSameChain ? ruleText(other) : undefined);
    const lines = wrap(`${place === null ? '' : lineText(rule, place)}${text}`, width, `  ${style.dim(label)}  `);
    return hasColor ? lines : lines.flatMap(withCarets);
  };
  return [
    ...expected
      .slice(0, 4)
      .flatMap((rule, at) => marked(rule, expected.length === actual.length ? actual[at] : undefined, 'expected', null)),
    ...actual.slice(0, 4).flatMap((rule, at) => marked(rule, expected.length === actual.length ? expected[at] : undefined, 'found   ', on)),
  ];
}

const inColor = styleOf(true).red;

/** The rule, with what the other rule does not have marked: in red, or by carets below where there is no color. */
function markDifferences(text: string, other: string | undefined): string {
  const others = new Set(other?.split(' '));
  const words = text.split(' ');
  const own = words.filter(word => !others.has(word)).length;
  // Rules that have little in common are two rules, not one that differs.
  if (other === undefined || own > words.length / 3) return text;
  return words.map(word => (others.has(word) ? word : inColor(word))).join(' ');
}

/** The line without color and, if something is marked in it, a line of carets. */
function withCarets(line: string): readonly string[] {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: color codes begin with one
  const mark = /\u001b\[31m(.*?)\u001b\[39m/g;
  if (line.search(mark) < 0) return [line];
  const carets = line
    .replace(mark, (_, word: string) => '\0'.repeat(word.length))
    .replaceAll(/[^\0]/g, ' ')
    .replaceAll('\0', '^');
  return [line.replaceAll(mark, '$1'), carets.trimEnd()];
}

function adviceLines(block: FindingGroup, style: Style, width: number): readonly string[] {
  const {code, remedy} = block.finding;
  return [
    ...wrap(escapeText(remedy), proseWidth(width), `  ${style.dim('do      ')}  `),
    ...commandLines(block, style, width),
    `  ${style.dim('more    ')}  kubectl svc-trace explain ${code}`,
  ];
}

/** A command stays in one piece, so that it can be copied. On a terminal one that names the pods of all nodes would hide the rest. */
function commandLines(block: FindingGroup, style: Style, width: number): readonly string[] {
  const {lines, otherNodes} = groupCommands(block, width === Infinity ? Infinity : maxPods);
  return [
    ...lines.map(({isOnNode, text}) => `  ${style.dim(isOnNode ? 'on node ' : 'run     ')}  ${escapeText(text)}`),
    ...(otherNodes > 0 ? [style.dim(`            and likewise on ${plural(otherNodes, 'more node')}; -o json has each command`)] : []),
  ];
}

const maxPods = 10;

/** For many nodes, line numbers are those of the first. */
function lineText(rule: RuleText, node: string): string {
  const line = dumpLine(rule);
  if (line > 0) return `${node}line ${line}: `;
  return rule.isOrdinal && rule.line > 0 ? `${node}rule ${rule.line}: ` : '';
}

function ruleText(rule: RuleText): string {
  const {text, chain, table} = rule;
  // Rules and elements of nftables do not name their chain, set or map.
  const place = /^(?:ip6?|inet|bridge|arp|netdev) /.test(table) && !text.includes(chain) ? `${tableName(rule)} ${chain}:` : tableName(rule);
  return escapeText(`${place} ${text.length > 400 ? `${text.slice(0, 400)}…` : text}`);
}
