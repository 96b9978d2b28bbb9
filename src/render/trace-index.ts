import {dot} from './graph/dot.ts';
import {mermaid} from './graph/mermaid.ts';
import type {Renderer} from './renderer.ts';
import {svg} from './graph/svg.ts';
import {traceJson, traceYaml} from './trace-json.ts';
import {traceHtml} from './html/trace-page.ts';
import {tree} from './table/tree.ts';

/** The output formats of `trace`. */
export const traceRenderers = {tree, json: traceJson, yaml: traceYaml, mermaid, dot, svg, html: traceHtml} as const satisfies Readonly<
  Record<string, Renderer>
>;
