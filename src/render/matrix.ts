import Table from 'cli-table3';
import {type Finding, type Severity, severities} from '../model/finding.ts';
import type {Report} from '../model/report.ts';
import {escapeText} from './escape.ts';
import {bySeverity, type Style} from './style.ts';
import {count} from './verdict-line.ts';

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
  const cells = new Cells(report.findings);
  const columns = columnsOf(report, cells);
  const {rows, notes} = rowsOf(report, cells, all);
  const fit = fitColumns(columns, width - longest(rows));
  const table = new Table({
    head: ['SERVICE', ...fit.titles],
    style: {head: [], border: [], 'padding-left': 0, 'padding-right': 0},
    chars: plain,
  });
  if (fit.shown.some(({node}) => cells.worst(node, null) !== undefined))
    table.push(['(the node itself)', ...fit.shown.map(({node}) => cell(cells.worst(node, null), style))]);
  for (const service of rows) table.push([escapeText(service), ...fit.shown.map(column => serviceCell(column, service, cells, style))]);
  if (fit.shown.length < columns.length)
    notes.push(`${columns.length - fit.shown.length} more groups of nodes: widen the terminal, or use -o wide`);
  // Without a row there is nothing to tell apart, and the verdict has said it all.
  if (table.length === 0) return '';
  const lines = table.toString().split('\n');
  return [...lines.map(line => line.trimEnd()), ...notes.map(text => style.dim(text))].join('\n');
}

/** The worst finding of each node and Service; without a Service, of the node itself. */
class Cells {
  readonly #byNode = new Map<string, Map<string | null, Finding>>();

  constructor(findings: readonly Finding[]) {
    for (const finding of findings) if (finding.node !== undefined) this.#note(finding.node, finding);
  }

  worst(node: string, service: string | null): Finding | undefined {
    return this.#byNode.get(node)?.get(service);
  }

  /** The same for nodes that fare alike. */
  pattern(node: string): readonly string[] {
    return [...(this.#byNode.get(node) ?? [])].map(([service, {code, severity}]) => JSON.stringify([service, code, severity])).sort();
  }

  #note(node: string, finding: Finding): void {
    const own = this.#byNode.get(node) ?? new Map<string | null, Finding>();
    this.#byNode.set(node, own);
    const service = finding.service === undefined ? null : `${finding.service.namespace}/${finding.service.name}`;
    const before = own.get(service);
    if (before === undefined || rank(finding.severity) < rank(before.severity)) own.set(service, finding);
  }
}

function rank(severity: Severity): number {
  return severities.indexOf(severity);
}

interface Column {
  readonly title: string;
  /** The first of the nodes. */
  readonly node: string;
  readonly read: boolean;
}

/** A column for each node when they are few; else one for all that fare alike, those with the most findings first. */
function columnsOf({nodes}: Report, cells: Cells): readonly Column[] {
  const groups = new Map<string, {readonly names: string[]; readonly read: boolean; readonly findings: number}>();
  for (const {name, status} of nodes) {
    const own = cells.pattern(name);
    const key = JSON.stringify([status, own, nodes.length <= fewNodes ? name : null]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, {names: [name], read: status === 'checked', findings: own.length});
    else group.names.push(name);
  }
  const sorted = [...groups.values()];
  if (nodes.length > fewNodes) sorted.sort((a, b) => b.findings - a.findings || a.names.length - b.names.length);
  return sorted.map(({names, read}) => ({
    title: names.length === 1 ? escapeText(names[0] ?? '') : count(names.length, 'node'),
    node: names[0] ?? '',
    read,
  }));
}

const fewNodes = 5;

/** Services that have something to say, or all of them when they are few. */
function rowsOf({services, nodes}: Report, cells: Cells, all: boolean): {readonly rows: readonly string[]; readonly notes: string[]} {
  const named = services.map(({namespace, name}) => `${namespace}/${name}`);
  if (all || named.length <= fewServices) return {rows: named, notes: []};
  const severity = (service: string): number => {
    const found = nodes.flatMap(({name}) => cells.worst(name, service) ?? []);
    return Math.min(...found.map(finding => rank(finding.severity)));
  };
  const loud = named.map(service => ({service, severity: severity(service)})).filter(row => row.severity !== Infinity);
  const shown = loud.toSorted((a, b) => a.severity - b.severity).slice(0, mostRows);
  const allWell = nodes.every(({name, status}) => status !== 'unread' && cells.worst(name, null)?.severity !== 'error');
  const [hidden, fine] = [loud.length - shown.length, named.length - loud.length];
  return {
    rows: shown.map(({service}) => service),
    notes: [
      ...(hidden > 0 ? [`${count(hidden, 'more Service')} with findings; -o wide shows them`] : []),
      ...(fine > 0 ? [`the other ${count(fine, 'Service')}: ${allWell ? 'ok on every node' : 'no finding of their own'}`] : []),
    ],
  };
}

const fewServices = 12;
const mostRows = 40;

interface Fit {
  readonly shown: readonly Column[];
  readonly titles: readonly string[];
}

/** As many columns as there is room for, at least one. Long names of nodes are shortened when that makes room for more. */
function fitColumns(columns: readonly Column[], room: number): Fit {
  const each = Math.max(shortestTitle, Math.floor(room / columns.length) - gap.length);
  const titles = columns.map(({title}) => shorten(title, each));
  let left = room;
  const tooMany = titles.findIndex((title, index) => {
    left -= gap.length + Math.max(title.length, widestCell);
    return index > 0 && left < 0;
  });
  const fitting = tooMany < 0 ? columns.length : tooMany;
  return {shown: columns.slice(0, fitting), titles: titles.slice(0, fitting)};
}

const gap = '  ';
const shortestTitle = 20;
/** `ok ST213` */
const widestCell = 8;

/** Cut in the middle: names of nodes differ at either end. */
function shorten(text: string, most: number): string {
  const half = Math.floor((most - 1) / 2);
  return text.length <= most ? text : `${text.slice(0, most - 1 - half)}…${text.slice(-half)}`;
}

/** A Service without a finding of its own is not well on a node that was not read, or where something befell all Services. */
function serviceCell({node, read}: Column, service: string, cells: Cells, style: Style): string {
  const own = cells.worst(node, service);
  if (!read && own === undefined) return style.dim('?');
  const whole = cells.worst(node, null);
  return own === undefined && whole?.severity === 'error' ? style.dim(`(${whole.code})`) : cell(own, style);
}

function cell(finding: Finding | undefined, style: Style): string {
  if (finding === undefined) return style.green('ok');
  return bySeverity(style, finding.severity)(finding.severity === 'info' ? `ok ${finding.code}` : finding.code);
}

function longest(rows: readonly string[]): number {
  return rows.reduce((most, row) => Math.max(most, escapeText(row).length), '(the node itself)'.length);
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
