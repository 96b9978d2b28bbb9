import type {Report} from '../../model/report.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {layOut} from '../graph/graph-layout.ts';
import {graphMarkup} from '../graph/graph-markup.ts';
import {type TraceGraph, traceGraphs} from '../graph/trace-graph.ts';
import type {GraphOptions} from '../graph/trace-paths.ts';
import {type Html, html, made, nothing} from './html.ts';
import {pushTo} from '../../model/lists.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {plural} from '../../model/text/plural.ts';

/** The graphs of one Service. */
export interface DrawnPath {
  readonly service: string;
  /** Where links to it lead. */
  readonly id: string;
  readonly traces: readonly PortTrace[];
}

/** Services that have findings on nodes and were traced, the worst first, as many as a page has room for. */
export function faultyPaths({findings, traces}: Report): {readonly drawn: readonly DrawnPath[]; readonly hidden: number} {
  const byService = new Map<string, PortTrace[]>();
  for (const trace of traces) {
    pushTo(byService, namespacedName(trace.service), trace);
  }
  const faulty = new Set(
    findings.flatMap(({service, severity}) => (service === undefined || severity === 'info' ? [] : [namespacedName(service)])),
  );
  const names = [...faulty].filter(name => byService.has(name));
  const drawn = names
    .slice(0, maxServices)
    .map((service, index) => ({service, id: `path-${index + 1}`, traces: byService.get(service) ?? []}));
  return {drawn, hidden: faulty.size - drawn.length};
}

const maxServices = 24;

export function pathHtml({service, id, traces}: DrawnPath, options: GraphOptions): Html {
  return html`<details class="path" data-service="${service}"><summary>${service}</summary>
<div id="${id}">
${graphsHtml(traces, options)}
</div></details>`;
}

/** The graphs of some Service ports, on as many groups of nodes as there is room for. */
export function graphsHtml(traces: readonly PortTrace[], options: GraphOptions): Html {
  const graphs = traceGraphs(traces, options);
  const shown = options.all ? graphs : graphs.slice(0, maxGraphs);
  const rest = graphs.length - shown.length;
  return html`${shown.map(figureHtml)}${rest === 0 ? nothing : html`<p class="note">${plural(rest, 'more picture')} not shown.</p>`}`;
}

const maxGraphs = 12;

function figureHtml(graph: TraceGraph): Html {
  const layout = layOut(graph);
  const [width, height] = [Math.ceil(layout.width), Math.ceil(layout.height)];
  return html`<figure><figcaption>${graph.title}</figcaption>
<div class="scroll" tabindex="0" role="region" aria-label="${graph.title}"><svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">
${made(graphMarkup(layout))}
</svg></div></figure>`;
}
