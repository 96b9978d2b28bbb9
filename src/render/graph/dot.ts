import {shortHeading} from './picture-heading.ts';
import type {Renderer} from '../renderer.ts';
import {type GraphArrow, type GraphBox, type TraceGraph, traceGraphs} from './trace-graph.ts';

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
    ...boxes.map(box => `    ${boxText(box, number)}`),
    ...arrows.map(arrow => `    ${arrowText(arrow, number)}`),
    '  }',
  ];
}

function boxText({id, kind, lines, isFault}: GraphBox, number: number): string {
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
