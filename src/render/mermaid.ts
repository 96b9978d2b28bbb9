import {pictureHeading} from './picture-heading.ts';
import type {Renderer} from './renderer.ts';
import {type GraphArrow, type GraphBox, type TraceGraph, traceGraphs} from './trace-graph.ts';

/** A flowchart as GitHub, GitLab and many wikis draw it: a subgraph for each port and group of nodes that fare alike. */
export const mermaid: Renderer = (report, {verbose}) =>
  [
    'flowchart LR',
    `  heading["${pictureHeading(report).map(quoted).join('<br/>')}"]`,
    ...traceGraphs(report.traces, {all: verbose}).flatMap((graph, index) => subgraph(graph, `g${index + 1}`)),
    '  classDef fault fill:#fde8e8,stroke:#c62828,stroke-width:2px,stroke-dasharray:5 3,color:#7f1d1d',
  ].join('\n');

function subgraph({title, boxes, arrows}: TraceGraph, id: string): readonly string[] {
  return [
    `  subgraph ${id}["${quoted(title)}"]`,
    '    direction LR',
    ...boxes.map(box => `    ${boxText(box, id)}`),
    ...arrows.map(arrow => `    ${arrowText(arrow, id)}`),
    '  end',
  ];
}

function boxText({id, kind, lines, isFault}: GraphBox, graph: string): string {
  const [open, close] = shapes[kind];
  return `${graph}${id}${open}"${lines.map(quoted).join('<br/>')}"${close}${isFault ? ':::fault' : ''}`;
}

const shapes = {entry: ['([', '])'], chain: ['[', ']'], endpoint: ['(', ')'], end: ['{{', '}}']} as const;

function arrowText({from, to, label, isFault}: GraphArrow, graph: string): string {
  const text = label === '' ? '' : `|"${quoted(label)}"|`;
  return `${graph}${from} ${isFault ? '-.->' : '-->'}${text} ${graph}${to}`;
}

/** Mermaid reads directives, tags and Markdown in labels too, so whatever is not plainly text becomes an entity code. */
function quoted(text: string): string {
  return text.replace(/%(?![ ,]|$)|[^\w .,:/()+%✓✗…\u00c0-\ud7ff-]/gu, character =>
    character === '"' ? '#quot;' : `#${character.codePointAt(0)};`,
  );
}
