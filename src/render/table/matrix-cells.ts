import {type Finding, type Severity, severities} from '../../model/finding.ts';
import type {Report} from '../../model/report.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {plural} from '../../model/text/plural.ts';

/** Nodes that fare alike. */
export interface NodeGroup {
  readonly nodes: readonly string[];
  readonly isRead: boolean;
}

export interface Cell {
  /** `ok`, `?`, a code, or a code in brackets where it befell the whole node. */
  readonly text: string;
  readonly severity: Severity | 'ok' | 'unknown';
  readonly finding?: Finding;
}

/** What became of each Service on each node: its worst finding there. */
export class MatrixCells {
  readonly #byNode = new Map<string, Map<string | null, Finding>>();

  constructor(findings: readonly Finding[]) {
    for (const finding of findings) if (finding.node !== undefined) this.#note(finding.node, finding);
  }

  hasOwn(group: NodeGroup): boolean {
    return this.worst(firstOf(group), null) !== undefined;
  }

  ofNode(group: NodeGroup): Cell {
    return cellOf(this.worst(firstOf(group), null));
  }

  /** A Service without a finding of its own is not well on a node that was not read, or where something befell all Services. */
  ofService(group: NodeGroup, service: string): Cell {
    const own = this.worst(firstOf(group), service);
    if (!group.isRead && own === undefined) return {text: '?', severity: 'unknown'};
    const whole = this.worst(firstOf(group), null);
    if (own === undefined && whole?.severity === 'error') return {text: `(${whole.code})`, severity: 'unknown', finding: whole};
    return cellOf(own);
  }

  /** Of a node and a Service; without a Service, of the node itself. */
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
    const service = finding.service === undefined ? null : namespacedName(finding.service);
    const before = own.get(service);
    if (before === undefined || rank(finding.severity) < rank(before.severity)) own.set(service, finding);
  }
}

function firstOf({nodes}: NodeGroup): string {
  return nodes[0] ?? '';
}

function cellOf(finding: Finding | undefined): Cell {
  if (finding === undefined) return {text: 'ok', severity: 'ok'};
  const {code, severity} = finding;
  return {text: severity === 'info' ? `ok ${code}` : code, severity, finding};
}

function rank(severity: Severity): number {
  return severities.indexOf(severity);
}

/** Each node for itself when they are few; else all that fare alike together, those with the most findings first. */
export function nodeGroups({nodes}: Report, cells: MatrixCells): readonly NodeGroup[] {
  const groups = new Map<string, {readonly names: string[]; readonly isRead: boolean; readonly findings: number}>();
  for (const {name, status} of nodes) {
    const own = cells.pattern(name);
    const key = JSON.stringify([status, own, nodes.length <= fewNodes ? name : null]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, {names: [name], isRead: status === 'checked', findings: own.length});
    else group.names.push(name);
  }
  const sorted = [...groups.values()];
  if (nodes.length > fewNodes) sorted.sort((a, b) => b.findings - a.findings || a.names.length - b.names.length);
  return sorted.map(({names, isRead}) => ({nodes: names, isRead}));
}

const fewNodes = 5;

export interface ServiceRows {
  readonly rows: readonly string[];
  /** How many Services with findings are left out. */
  readonly hidden: number;
  /** Those without findings that are left out. */
  readonly fine: readonly string[];
}

/** Services that have something to say, at most `most` of them; or all of them when they are `few`. As `namespace/name`. */
export function serviceRows(
  {services, nodes}: Report,
  cells: MatrixCells,
  {few, max}: {readonly few: number; readonly max: number},
): ServiceRows {
  const named = services.map(namespacedName);
  if (named.length <= few) return {rows: named, hidden: 0, fine: []};
  const severity = (service: string): number => {
    const found = nodes.flatMap(({name}) => cells.worst(name, service) ?? []);
    return Math.min(...found.map(finding => rank(finding.severity)));
  };
  const evaluated = named.map(service => ({service, severity: severity(service)}));
  const loud = evaluated.filter(row => row.severity !== Infinity);
  const fine = evaluated.filter(row => row.severity === Infinity).map(({service}) => service);
  const shown = loud.toSorted((a, b) => a.severity - b.severity).slice(0, max);
  return {rows: shown.map(({service}) => service), hidden: loud.length - shown.length, fine};
}

/** What is to be said of Services without a finding. */
export function fineText({nodes}: Report, cells: MatrixCells, fine: number): string {
  const allWell = nodes.every(({name, status}) => status !== 'unread' && cells.worst(name, null)?.severity !== 'error');
  return `the other ${plural(fine, 'Service')}: ${allWell ? 'ok on every node' : 'no finding of their own'}`;
}
