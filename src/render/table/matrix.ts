import Table from 'cli-table3';
import type {Report} from '../../model/report.ts';
import {escapeText} from '../escape.ts';
import {type Cell, fineText, MatrixCells, type NodeGroup, nodeGroups, serviceRows} from './matrix-cells.ts';
import {bySeverity, type Style} from '../style.ts';
import {plural} from '../../model/text/plural.ts';

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
  const cells = new MatrixCells(report.findings);
  const columns = nodeGroups(report, cells);
  const {rows, hidden, fine} = serviceRows(report, cells, all ? {few: Infinity, max: Infinity} : {few: 12, max: 40});
  const notes = [
    ...(hidden > 0 ? [`${plural(hidden, 'more Service')} with findings; -o wide shows them`] : []),
    ...(fine.length > 0 ? [fineText(report, cells, fine.length)] : []),
  ];
  const fit = fitColumns(columns, width - longest(rows));
  const table = new Table({
    head: ['SERVICE', ...fit.titles],
    style: {head: [], border: [], 'padding-left': 0, 'padding-right': 0},
    chars: plain,
  });
  if (fit.shown.some(group => cells.hasOwn(group)))
    table.push(['(the node itself)', ...fit.shown.map(group => cell(cells.ofNode(group), style))]);
  for (const service of rows) table.push([escapeText(service), ...fit.shown.map(group => cell(cells.ofService(group, service), style))]);
  if (fit.shown.length < columns.length)
    notes.push(`${columns.length - fit.shown.length} more groups of nodes: widen the terminal, or use -o wide`);
  // Without a row there is nothing to tell apart, and the verdict has said it all.
  if (table.length === 0) return '';
  const lines = table.toString().split('\n');
  return [...lines.map(line => line.trimEnd()), ...notes.map(text => style.dim(text))].join('\n');
}

function titleOf({nodes}: NodeGroup): string {
  return nodes.length === 1 ? escapeText(nodes[0] ?? '') : plural(nodes.length, 'node');
}

interface Fit {
  readonly shown: readonly NodeGroup[];
  readonly titles: readonly string[];
}

/** As many columns as there is room for, at least one. Long names of nodes are shortened when that makes room for more. */
function fitColumns(columns: readonly NodeGroup[], room: number): Fit {
  const each = Math.max(minTitleLength, Math.floor(room / columns.length) - gap.length);
  const titles = columns.map(group => shorten(titleOf(group), each));
  let left = room;
  const tooMany = titles.findIndex((title, index) => {
    left -= gap.length + Math.max(title.length, widestCell);
    return index > 0 && left < 0;
  });
  const fitting = tooMany < 0 ? columns.length : tooMany;
  return {shown: columns.slice(0, fitting), titles: titles.slice(0, fitting)};
}

const gap = '  ';
const minTitleLength = 20;
/** `ok ST213` */
const widestCell = 8;

/** Cut in the middle: names of nodes differ at either end. */
function shorten(text: string, max: number): string {
  const half = Math.floor((max - 1) / 2);
  return text.length <= max ? text : `${text.slice(0, max - 1 - half)}…${text.slice(-half)}`;
}

function cell({text, severity}: Cell, style: Style): string {
  if (severity === 'unknown') return style.dim(text);
  return severity === 'ok' ? style.green(text) : bySeverity(style, severity)(text);
}

function longest(rows: readonly string[]): number {
  return rows.reduce((max, row) => Math.max(max, escapeText(row).length), '(the node itself)'.length);
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
  middle: gap,
};
