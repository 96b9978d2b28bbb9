import type {Rule} from '../model/ruleset.ts';
import {escapeText} from './escape.ts';
import type {FindingGroup} from './group-findings.ts';
import {bySeverity, type Style} from './style.ts';
import {wrap} from './wrap.ts';

/** One finding for people: what, where, the rules expected and found, what to do. */
export function findingText({finding, nodes}: FindingGroup, style: Style, width: number): string {
  const {code, name, severity, message, remedy, expected = [], actual = []} = finding;
  const where = nodes.length === 0 ? '' : `  ${nodeList(nodes)}${finding.family === 'IPv6' ? ' (IPv6)' : ''}`;
  const lines = [
    `${bySeverity(style, severity)(`${code} ${severity}`)}  ${style.bold(name)}${where}`,
    ...wrap(escapeText(message), width, '  '),
  ];
  const more = nodes.length > 1 ? `  (${nodes[0]})` : '';
  for (const rule of expected.slice(0, 4)) lines.push(`  ${style.dim('expected')}  ${ruleText(rule)}`);
  for (const rule of actual.slice(0, 4)) lines.push(`  ${style.dim('found   ')}  ${lineText(rule)}${ruleText(rule)}${more}`);
  lines.push(...wrap(remedy, width, '  ', `  ${style.dim('do      ')}  `), `  ${style.dim('more    ')}  kubectl svc-trace explain ${code}`);
  return lines.join('\n');
}

export function nodeList(nodes: readonly string[]): string {
  const shown = nodes.slice(0, 5).map(escapeText).join(', ');
  return nodes.length <= 5 ? shown : `${shown} and ${nodes.length - 5} more nodes`;
}

function lineText({line}: Rule): string {
  return line > 0 ? `line ${line}: ` : '';
}

function ruleText({table, text}: Rule): string {
  return `${table} ${escapeText(text.length > 400 ? `${text.slice(0, 400)}…` : text)}`;
}
