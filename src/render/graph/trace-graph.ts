import {largest} from '../../model/lists.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {escapeText} from '../terminal-text.ts';
import {nodeList} from '../names-of-nodes.ts';
import {type GraphOptions, groupNodes, type Leaf, portsOf, type TracePath, tracePathsOf} from './trace-paths.ts';
import {noRulesText, ofFirstNode, portName, portAndProtocol, unservedName} from '../trace-words.ts';

/**
 * The packet path to one Service port as boxes and arrows, for the nodes on which it is the same. Control characters are spelled out;
 * a format escapes what else it cannot hold.
 */
export interface TraceGraph {
  readonly title: string;
  readonly boxes: readonly GraphBox[];
  readonly arrows: readonly GraphArrow[];
}

export interface GraphBox {
  /** Unique in its graph; letters and digits. */
  readonly id: string;
  readonly kind: 'entry' | 'chain' | 'endpoint' | 'end';
  /** From left to right, entries at 0. */
  readonly column: number;
  /** From top to bottom; half rows for a box in the middle of several others. No two boxes have the same place. */
  readonly row: number;
  readonly lines: readonly string[];
  readonly isFault: boolean;
}

export interface GraphArrow {
  readonly from: string;
  readonly to: string;
  readonly label: string;
  readonly isFault: boolean;
}

/** A graph for each Service port and each group of nodes with the same path. */
export function traceGraphs(traces: readonly PortTrace[], options: GraphOptions): readonly TraceGraph[] {
  return portsOf(traces).flatMap(port => groupNodes(port).flatMap(group => graphOf(group, options)));
}

function graphOf(group: readonly PortTrace[], options: GraphOptions): readonly TraceGraph[] {
  const [first] = group;
  if (first === undefined) return [];
  const family = first.family === 'IPv6' ? ', IPv6' : '';
  const shown = ofFirstNode(group);
  const lines = shown === '' ? '' : ` (${escapeText(shown)})`;
  const title = `${escapeText(portName(first))} ${portAndProtocol(first)} on ${nodeList(group.map(({node}) => node))}${family}${lines}`;
  const paths = tracePathsOf(first.entries, options);
  const drawing = new Drawing(Math.max(0, largest(paths.flatMap(({entries}) => entries.map(({steps}) => steps.length)))));
  for (const path of paths) drawing.add(path);
  for (const address of first.unserved ?? []) drawing.addUnserved([unservedName(address), noRulesText(address)].map(escapeText));
  return [{title, boxes: drawing.boxes, arrows: drawing.arrows}];
}

/** Draws one path below the other. */
class Drawing {
  readonly boxes: GraphBox[] = [];
  readonly arrows: GraphArrow[] = [];
  /** The column of the chains that pick an endpoint; the chains that lead to them are to the left. */
  readonly #pickColumn: number;
  #top = 0;

  constructor(pickColumn: number) {
    this.#pickColumn = pickColumn;
  }

  add(path: TracePath): void {
    const height = Math.max(path.entries.length, path.leaves.length, 1);
    const pick = path.pick === null ? null : this.#box('chain', this.#pickColumn, this.#top + (height - 1) / 2, [path.pick]);
    const starts = this.#addEntries(path, pick, this.#top + (height - path.entries.length) / 2);
    const from = pick === null ? starts : [pick];
    for (const [index, leaf] of path.leaves.entries()) this.#addLeaf(leaf, from, this.#top + (height - path.leaves.length) / 2 + index);
    this.#top += height;
  }

  /** An address without rules has no arrow. */
  addUnserved(lines: readonly string[]): void {
    this.#box('entry', 0, this.#top, [`○ ${lines[0] ?? ''}`, ...lines.slice(1)]);
    this.#top++;
  }

  /** The entries, and the chains between them and the one that picks an endpoint. A chain that several entries share is drawn once. */
  #addEntries({entries, note}: TracePath, pick: string | null, top: number): readonly string[] {
    const passed = new Map<string, string>();
    return entries.map(({lines, isFault, steps}, index) => {
      const start = this.#box('entry', 0, top + index, lines, isFault);
      let from = start;
      for (const [at, {to, line, packets}] of steps.entries()) {
        const isPick = at === steps.length - 1;
        const known = isPick ? pick : (passed.get(`${at} ${to}`) ?? null);
        const next = known ?? this.#box('chain', at + 1, top + index, [to]);
        if (!isPick) passed.set(`${at} ${to}`, next);
        this.#arrow({from, to: next, label: [lineText(line), packets, ...(at === 0 ? [note(index)] : [])], isFault});
        from = next;
      }
      return start;
    });
  }

  #addLeaf({kind, lines, isFault, label, chain}: Leaf, from: readonly string[], row: number): void {
    const end = this.#box(kind, this.#pickColumn + 2, row, lines, isFault);
    const middle = chain === null ? null : this.#box('chain', this.#pickColumn + 1, row, [chain.name]);
    if (middle !== null) this.#arrow({from: middle, to: end, label: [lineText(chain?.line ?? 0), chain?.packets ?? ''], isFault});
    for (const start of from) this.#arrow({from: start, to: middle ?? end, label: [label], isFault});
  }

  #box(kind: GraphBox['kind'], column: number, row: number, lines: readonly string[], isFault = false): string {
    const id = `b${this.boxes.length + 1}`;
    this.boxes.push({id, kind, column, row, lines, isFault});
    return id;
  }

  #arrow({label, ...arrow}: Omit<GraphArrow, 'label'> & {readonly label: readonly string[]}): void {
    const text = label.filter(part => part !== '').join(', ');
    const isThere = this.arrows.some(({from, to, label: known}) => from === arrow.from && to === arrow.to && known === text);
    if (!isThere) this.arrows.push({...arrow, label: text});
  }
}

/** A rule that follows from an excerpt, but is not in it, has no line. */
function lineText(line: number): string {
  return line > 0 ? `line ${line}` : '';
}
