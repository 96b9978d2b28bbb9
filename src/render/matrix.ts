import Table from 'cli-table3';
import {type Finding, severities} from '../model/finding.ts';
import type {Report} from '../model/report.ts';
import {escapeText} from './escape.ts';
import {bySeverity, type Style} from './style.ts';

export interface MatrixOptions {
  readonly style: Style;
  readonly width: number;
  /** All Services, not only those with something to say. */
  readonly all: boolean;
}

/**
 * Services against nodes. Nodes that fare alike share a column, so that 300 nodes of which one is ill are two columns;
 * Services without a finding are counted in one line when there are many.
 */
export function matrix(report: Report, {style, width, all}: MatrixOptions): string {
  const cells = new Map<string, Finding>();
  for (const finding of report.findings) note(cells, finding);
  const columns = columnsOf(report, cells);
  const named = report.services.map(({namespace, name}) => `${namespace}/${name}`);
  const loud = named.filter(service => columns.some(({nodes}) => cells.has(`${nodes[0]} ${service}`)));
  const rows = all || named.length <= 12 ? named : loud;
  const fitting = Math.max(1, Math.min(columns.length, Math.floor((width - longest(rows) - 4) / 14)));
  const shown = columns.slice(0, fitting);
  const table = new Table({head: ['SERVICE', ...shown.map(({title}) => title)], style: {head: [], border: []}, chars: plain});
  const whole = shown.map(({nodes}) => cells.get(`${nodes[0]} `));
  if (whole.some(finding => finding !== undefined)) table.push(['(the node itself)', ...whole.map(finding => cell(finding, style))]);
  for (const service of rows)
    table.push([
      escapeText(service),
      ...shown.map(({nodes, read}) => (read ? cell(cells.get(`${nodes[0]} ${service}`), style) : style.dim('?'))),
    ]);
  const notes = [
    ...(rows.length < named.length ? [`${named.length - rows.length} more Services, nothing to report`] : []),
    ...(shown.length < columns.length ? [`${columns.length - shown.length} more groups of nodes: widen the terminal, or use -o wide`] : []),
  ];
  return [...(table.length > 0 ? [table.toString()] : []), ...notes.map(text => style.dim(text))].join('\n');
}

interface Column {
  readonly title: string;
  readonly nodes: readonly string[];
  readonly read: boolean;
}

/** The worst finding of each node and Service; without a Service, of the node itself. */
function note(cells: Map<string, Finding>, finding: Finding): void {
  const {node, service} = finding;
  if (node === undefined) return;
  const key = `${node} ${service === undefined ? '' : `${service.namespace}/${service.name}`}`;
  const before = cells.get(key);
  if (before === undefined || severities.indexOf(finding.severity) < severities.indexOf(before.severity)) cells.set(key, finding);
}

/** Groups nodes whose cells read the same; those with the worst findings come first, whole ones last. */
function columnsOf(report: Report, cells: ReadonlyMap<string, Finding>): readonly Column[] {
  const patterns = new Map<string, string[]>();
  for (const [key, {code}] of cells) {
    const [node = '', service = ''] = key.split(' ');
    patterns.set(node, [...(patterns.get(node) ?? []), `${service} ${code}`]);
  }
  const groups = new Map<string, {nodes: string[]; read: boolean; findings: number}>();
  for (const {name, status} of report.nodes) {
    const own = patterns.get(name) ?? [];
    const key = `${status} ${own.sort().join()}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, {nodes: [name], read: status === 'checked', findings: own.length});
    else group.nodes.push(name);
  }
  const sorted =
    report.nodes.length <= 5
      ? [...groups.values()].flatMap(group => group.nodes.map(node => ({...group, nodes: [node]})))
      : [...groups.values()].sort((a, b) => b.findings - a.findings);
  if (report.nodes.length <= 5) sorted.sort((a, b) => ((a.nodes[0] ?? '') < (b.nodes[0] ?? '') ? -1 : 1));
  return sorted.map(({nodes, read}) => ({nodes, read, title: nodes.length === 1 ? escapeText(nodes[0] ?? '') : `${nodes.length} nodes`}));
}

function cell(finding: Finding | undefined, style: Style): string {
  return finding === undefined
    ? style.green('ok')
    : bySeverity(style, finding.severity)(finding.severity === 'info' ? `ok ${finding.code}` : finding.code);
}

function longest(rows: readonly string[]): number {
  return rows.reduce((most, row) => Math.max(most, row.length), 20);
}

/** Columns side by side without lines, as kubectl prints them. */
const plain = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '  ',
};
