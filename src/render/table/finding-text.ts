import type {RuleText} from '../../model/ruleset.ts';
import {escapeText} from '../escape.ts';
import {nodeList} from '../node-list.ts';
import {type FindingGroup, groupFindings} from '../group-findings.ts';
import type {Finding} from '../../model/finding.ts';
import {bySeverity, type Style} from '../style.ts';
import {wrap} from '../wrap.ts';

export interface FindingTextOptions {
  readonly style: Style;
  readonly width: number;
  /** How many findings of one code are shown; the rest are counted. */
  readonly max: number;
}

/** Findings for people, a block each. The remedy stands once, under the last finding it applies to. */
export function findingTexts(findings: readonly Finding[], {style, width, max}: FindingTextOptions): readonly string[] {
  const groups = groupFindings(findings);
  const seen = new Map<string, number>();
  const shown = groups.filter(({finding}) => {
    const nth = (seen.get(finding.code) ?? 0) + 1;
    seen.set(finding.code, nth);
    return nth <= max;
  });
  return shown.map((group, index) => {
    const {code, remedy} = group.finding;
    const next = shown[index + 1]?.finding;
    const hidden = next?.code === code ? 0 : (seen.get(code) ?? 0) - max;
    return [
      ...findingLines(group, style, width),
      ...(hidden > 0 ? [style.dim(`  and ${hidden} more of ${code}; -o wide shows them`)] : []),
      ...(next?.code === code && next.remedy === remedy ? [] : adviceLines(group, style, width)),
    ].join('\n');
  });
}

/** What, where, and the rules expected and found. */
function findingLines({finding, nodes}: FindingGroup, style: Style, width: number): readonly string[] {
  const {code, name, severity, known, message, expected = [], actual = []} = finding;
  const where = nodes.length === 0 ? '' : `  ${nodeList(nodes)}${finding.family === 'IPv6' ? ' (IPv6)' : ''}`;
  const on = nodes.length > 1 ? `${escapeText(nodes[0] ?? '')} ` : '';
  return [
    `${bySeverity(style, severity)(`${code} ${severity}`)}${known ? ' (known)' : ''}  ${style.bold(name)}${where}`,
    ...wrap(escapeText(message), proseWidth(width), '  '),
    ...expected.slice(0, 4).flatMap(rule => wrap(ruleText(rule), width, `  ${style.dim('expected')}  `)),
    ...actual.slice(0, 4).flatMap(rule => wrap(`${lineText(rule, on)}${ruleText(rule)}`, width, `  ${style.dim('found   ')}  `)),
  ];
}

function adviceLines({finding: {code, remedy}}: FindingGroup, style: Style, width: number): readonly string[] {
  return [
    ...wrap(escapeText(remedy), proseWidth(width), `  ${style.dim('do      ')}  `),
    `  ${style.dim('more    ')}  kubectl svc-trace explain ${code}`,
  ];
}

/** Sentences keep to a readable width on wide terminals; rules stay in one piece where there is room. */
function proseWidth(width: number): number {
  return Math.min(width, 120);
}

/** On many nodes, line numbers are those of the first. */
function lineText({line}: RuleText, node: string): string {
  return line > 0 ? `${node}line ${line}: ` : '';
}

function ruleText({table, text}: RuleText): string {
  return escapeText(`${table} ${text.length > 400 ? `${text.slice(0, 400)}…` : text}`);
}
