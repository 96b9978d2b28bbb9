import type {Report} from '../../model/report.ts';
import {groupFindings} from '../finding-blocks.ts';
import {nodeList} from '../names-of-nodes.ts';
import type {Renderer} from '../renderer.ts';
import {escapeText, styleOf} from '../terminal-text.ts';
import {verdictLine} from '../verdict-line.ts';
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
export function shortHeading(report: Report): readonly string[] {
  return pictureHeading(report).map(line => (line.length <= maxLength ? line : `${line.slice(0, maxLength)}…`));
}

const maxLength = 150;
