import {append, byWord, largest} from '../../model/lists.ts';
import {plural} from '../../model/text.ts';
import Table from 'cli-table3';
import type {Report} from '../../model/report.ts';
import {bySeverity, escapeText, type Style, visibleLength, wrap} from '../renderer.ts';
import {
  causedText,
  emptyCell,
  fineText,
  type MatrixCell,
  matrixOf,
  type NodeGroup,
  nodeTitles,
  rowTitle,
  worstFirst,
} from './matrix-cells.ts';
import {withoutRulesText} from '../verdict-line.ts';

interface MatrixOptions {
  readonly style: Style;
  readonly width: number;
  /** All Services, not only those with findings. */
  readonly all: boolean;
}

/**
 * Services against nodes. Nodes with the same cells share a column, so that 300 nodes of which one is faulty are two columns. Services
 * without a finding are counted in one line if there are many.
 */
export function matrix(report: Report, {style, width, all}: MatrixOptions): string {
  const {cells, groups, rows, hidden, caused, fine} = matrixOf(report, all ? wholeMatrix : {few: 12, single: 12, maxRows: 40});
  const lines = [...(groups.some(group => cells.hasOwn(group)) ? [null] : []), ...rows];
  // Without rows the matrix adds nothing to the verdict.
  if (lines.length === 0) return '';
  const columnsOf = (shown: readonly NodeGroup[]): readonly MatrixColumn[] => {
    const titles = nodeTitles(shown, all ? Infinity : maxLegend);
    return [
      ...(cells.hasApi ? [{title: 'API', cells: lines.map(row => (row === null ? emptyCell : cells.ofApi(row[0]))), legend: []}] : []),
      ...shown.map((group, index) => ({
        title: titles[index]?.title ?? '',
        cells: lines.map(row => (row === null ? cells.ofNode(group) : cells.ofRow(group, row))),
        legend: titles[index]?.legend ?? [],
      })),
    ];
  };
  const names = [wholeNode, ...rows.map(row => escapeText(rowTitle(row)))];
  const room = width - largest(names.map(({length}) => length));
  const columns = columnsOf(groups);
  const inOrder = fitColumns(columns, room);
  // A node with findings is not left out in place of one without.
  const fit =
    inOrder.shown.length === columns.length ? inOrder : fitColumns(columnsOf(worstFirst(groups, cells, new Set(rows.flat()))), room);
  const head = ['SERVICE', ...fit.titles];
  const body = lines.map((row, index) => [
    row === null ? wholeNode : escapeText(rowTitle(row)),
    ...fit.shown.map(column => cell(column.cells[index], style)),
  ]);
  const notes = [
    ...fit.shown.flatMap(({legend}) => legend),
    ...(caused.length > 0 ? [`${causedText(caused.length)}; -o wide shows ${caused.length === 1 ? 'it' : 'them'}`] : []),
    ...(hidden > 0 ? [`${plural(hidden, 'more Service')} with findings; -o wide shows ${hidden === 1 ? 'it' : 'them'}`] : []),
    ...(fine.length > 0 ? [fineText(report, cells, fine)] : []),
    ...(withoutRulesText(report) === '' ? [] : [withoutRulesText(report)]),
    ...(fit.shown.length < columns.length
      ? [`${plural(columns.length - fit.shown.length, 'more column')} of nodes: widen the terminal, or use -o wide`]
      : []),
  ];
  const text = tableLines([head, ...body]);
  return [...text.map(line => line.trimEnd()), ...notes.flatMap(note => wrap(note, width, '').map(style.dim))].join('\n');
}

/** The layout of cli-table3 takes time with the square of its rows: a table of many rows is made of several with the same widths. */
function tableLines(rows: readonly (readonly string[])[]): readonly string[] {
  const colWidths = (rows[0] ?? []).map((_, column) =>
    rows.reduce((width, cells) => Math.max(width, visibleLength(cells[column] ?? '')), 0),
  );
  const lines: string[] = [];
  for (let start = 0; start < rows.length; start += rowsOfTable) {
    const table = new Table({style: {head: [], border: [], 'padding-left': 0, 'padding-right': 0}, chars: plain, colWidths});
    table.push(...rows.slice(start, start + rowsOfTable).map(cells => [...cells]));
    append(lines, table.toString().split('\n'));
  }
  return lines;
}

const rowsOfTable = 256;

const wholeMatrix = {few: Infinity, single: Infinity, maxRows: Infinity};

const wholeNode = '(the node itself)';

interface MatrixColumn {
  readonly title: string;
  /** In the order of the rows. */
  readonly cells: readonly MatrixCell[];
  /** The names that the title stands for. */
  readonly legend: readonly string[];
}

/** About two lines for each group of nodes. */
const maxLegend = 140;

/** As many columns as fit, at least one. Long node names are shortened if more columns fit then. */
function fitColumns(columns: readonly MatrixColumn[], room: number) {
  const each = Math.max(minTitleLength, Math.floor(room / columns.length) - gap.length);
  const titles = columns.map(({title}) => shorten(title, each));
  let left = room;
  const tooMany = columns.findIndex(({cells}, index) => {
    left -= gap.length + cells.reduce((width, {text}) => Math.max(width, text.length), titles[index]?.length ?? 0);
    return index > 0 && left < 0;
  });
  const fitting = tooMany < 0 ? columns.length : tooMany;
  return {shown: columns.slice(0, fitting), titles: titles.slice(0, fitting)};
}

const gap = '  ';
const minTitleLength = 20;

/** Shortened in the middle: node names differ at either end. */
function shorten(text: string, max: number): string {
  const half = Math.floor((max - 1) / 2);
  return text.length <= max ? text : `${text.slice(0, max - 1 - half)}…${text.slice(-half)}`;
}

function cell(made: MatrixCell | undefined, style: Style): string {
  const {text, severity} = made ?? {text: '', severity: 'ok'};
  if (severity === 'unknown') return style.dim(text);
  return severity === 'ok' ? style.green(text) : bySeverity(style, severity)(text);
}

/** Columns side by side without lines, as kubectl prints them. */
const plain = {
  ...byWord(['top top-mid top-left top-right bottom bottom-mid bottom-left bottom-right left left-mid mid mid-mid right right-mid', '']),
  middle: gap,
};
