import type {Report} from '../../model/report.ts';
import {groupFindings, nodeList} from '../finding-blocks.ts';
import {type Renderer, escapeText, styleOf} from '../renderer.ts';
import {verdictLine} from '../verdict-line.ts';
import {type GraphArrow, type GraphBox, type TraceGraph, traceGraphs, type GraphOptions} from './trace-graph.ts';

/** A graph for Graphviz: `dot -Tsvg`, `dot -Tpdf`. A cluster for each port and group of nodes with the same path. */
export const dot: Renderer = (report, {verbose}) =>
  [
    'digraph trace {',
    '  graph [rankdir=LR, fontname="sans-serif", labeljust=l, labelloc=t, color=gray];',
    `  label="${shortHeading(report)
      .map(line => `${escaped(line)}\\l`)
      .join('')}";`,
    '  node [shape=box, fontname="monospace", fontsize=11];',
    '  edge [fontname="sans-serif", fontsize=10];',
    ...traceGraphs(report.traces, {all: verbose}).flatMap((graph, index) => cluster(graph, index + 1)),
    '}',
  ].join('\n');

function cluster({title, boxes, arrows}: TraceGraph, number: number): readonly string[] {
  return [
    `  subgraph cluster_${number} {`,
    `    label=${quoted(title)};`,
    ...boxes.map(box => `    ${dotBox(box, number)}`),
    ...arrows.map(arrow => `    ${arrowText(arrow, number)}`),
    '  }',
  ];
}

function dotBox({id, kind, lines, isFault}: GraphBox, number: number): string {
  const label = `"${lines.map(escaped).join('\\n')}"`;
  const styles = [...(kind === 'chain' ? [] : ['rounded']), ...(isFault ? ['dashed'] : [])];
  const style = styles.length === 0 ? '' : `, style="${styles.join(',')}"`;
  return `g${number}${id} [label=${label}${style}${isFault ? faultColor : ''}];`;
}

function arrowText({from, to, label, isFault}: GraphArrow, number: number): string {
  return `g${number}${from} -> g${number}${to} [label=${quoted(label)}${isFault ? `, style=dashed${faultColor}` : ''}];`;
}

const faultColor = ', color="#c62828", fontcolor="#c62828", penwidth=2';

function quoted(text: string): string {
  return `"${escaped(text)}"`;
}

/** Graphviz interprets backslashes and HTML entities in a label. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('\\', '\\\\').replaceAll('"', '\\"');
}

/**
 * The lines above a picture: the verdict, the nodes that were not checked, and the findings. A node whose rules for a Service are right
 * can still lose all of its packets. Control characters are spelled out.
 */
export function pictureHeading(report: Report): readonly string[] {
  const unread = report.basis === 'rules' ? [] : report.nodes.filter(({status}) => status !== 'checked');
  const found = groupFindings(report.findings.filter(({severity}) => severity !== 'info' || report.traces.length === 0));
  return [
    verdictLine(report, styleOf(false)),
    ...unread.slice(0, max).map(({name, reason}) => `? ${name}: ${reason ?? ''}`),
    ...more(unread.length, 'nodes were not checked, or in part'),
    ...found.slice(0, max).map(({finding, nodes}) => {
      const {code, severity, name, message} = finding;
      return `${severity === 'info' ? '' : '✗ '}${code} ${severity} ${name}${nodes.length === 0 ? '' : ` on ${nodeList(nodes)}`}: ${message}`;
    }),
    ...more(found.length, 'findings'),
  ].map(escapeText);
}

const max = 8;

function more(all: number, what: string): readonly string[] {
  return all <= max ? [] : [`and ${all - max} more ${what}`];
}

/** The same for formats that do not wrap text. */
function shortHeading(report: Report): readonly string[] {
  return pictureHeading(report).map(line => (line.length <= maxLength ? line : `${line.slice(0, maxLength)}…`));
}

const maxLength = 150;

/**
 * A flowchart as GitHub, GitLab and many wikis draw it: a subgraph for each port and group of nodes with the same path. Mermaid draws
 * nothing at all beyond its limits; pictures that do not fit are left out, and the heading says so.
 */
export const mermaid: Renderer = (report, {verbose}) => {
  const heading = shortHeading(report).map(labelText);
  const {subgraphs, notes} = thatFit(report, {all: verbose, letters: maxLetters - heading.join('<br/>').length});
  return [
    'flowchart LR',
    `  heading["${[...heading, ...notes.map(labelText)].join('<br/>')}"]`,
    ...subgraphs.flat(),
    '  classDef fault fill:#fde8e8,stroke:#c62828,stroke-width:2px,stroke-dasharray:5 3,color:#7f1d1d',
  ].join('\n');
};

/** Mermaid's default limits, which a text cannot raise: `maxTextSize`, less the heading, and `maxEdges`. */
const maxLetters = 49_000;
const maxArrows = 500;

/**
 * All subgraphs. If they do not fit, those with faults, and as many others as fit, in their order. `subgraphs`: each subgraph as its lines.
 * `notes`: what is not drawn.
 */
function thatFit({traces}: Report, {all, letters: room}: GraphOptions & {readonly letters: number}) {
  const graphs = traceGraphs(traces, {all});
  // With all endpoints a graph can be too big by itself.
  const short = all ? traceGraphs(traces, {all: false}) : graphs;
  const drawn = new Map<number, readonly string[]>();
  const left = {letters: room, arrows: maxArrows};
  const hasFault = (index: number): boolean => graphs[index]?.boxes.some(({isFault}) => isFault) ?? false;
  const take = (index: number, graph: TraceGraph | undefined): boolean => {
    if (graph === undefined) return false;
    const lines = subgraph(graph, `g${index + 1}`);
    const letters = lines.reduce((sum, line) => sum + line.length + 1, 0);
    if (letters > left.letters || graph.arrows.length > left.arrows) return false;
    left.letters -= letters;
    left.arrows -= graph.arrows.length;
    drawn.set(index, lines);
    return true;
  };
  const order = [...graphs.keys()].toSorted((a, b) => Number(hasFault(b)) - Number(hasFault(a)) || a - b);
  const shortened = order.filter(index => !take(index, graphs[index]) && take(index, short[index])).length;
  return {
    subgraphs: [...drawn].toSorted(([a], [b]) => a - b).map(([, lines]) => lines),
    notes: notesOf(graphs.length - drawn.size, shortened),
  };
}

function notesOf(missing: number, shortened: number): readonly string[] {
  const others = 'Mermaid draws no more; -o svg draws all, or choose fewer Services or nodes';
  if (missing > 0) return [`${missing} more pictures are not shown: ${others}`];
  return shortened > 0 ? [`in ${shortened} of the pictures only a few of many endpoints are drawn: ${others}`] : [];
}

function subgraph({title, boxes, arrows}: TraceGraph, id: string): readonly string[] {
  return [
    `  subgraph ${id}["${labelText(title)}"]`,
    '    direction LR',
    ...boxes.map(box => `    ${boxText(box, id)}`),
    ...arrows.map(arrow => `    ${mermaidArrow(arrow, id)}`),
    '  end',
  ];
}

function boxText({id, kind, lines, isFault}: GraphBox, graph: string): string {
  const [open, close] = shapes[kind];
  return `${graph}${id}${open}"${lines.map(labelText).join('<br/>')}"${close}${isFault ? ':::fault' : ''}`;
}

const shapes = {entry: ['([', '])'], chain: ['[', ']'], endpoint: ['(', ')'], end: ['{{', '}}']} as const;

function mermaidArrow({from, to, label, isFault}: GraphArrow, graph: string): string {
  const text = label === '' ? '' : `|"${labelText(label)}"|`;
  return `${graph}${from} ${isFault ? '-.->' : '-->'}${text} ${graph}${to}`;
}

/**
 * Mermaid interprets directives, tags and Markdown in labels, so every special character becomes an entity code. It finds formulas and
 * icons after it decodes entities: a character without width divides these.
 */
function labelText(text: string): string {
  const plain = text.replace(/\$(?=\$)|:(?=fa-)/g, '$&\u2060');
  return plain.replace(/%(?![ ,]|$)|[^\w .,:/()+%✓✗○…\u2060\u00c0-\ud7ff-]/gu, character =>
    character === '"' ? '#quot;' : `#${character.codePointAt(0)};`,
  );
}
