import {dot} from './dot.ts';
import {mermaid} from './mermaid.ts';
import type {Renderer} from './renderer.ts';
import {svg} from './svg.ts';
import {traceJson, traceYaml} from './trace-json.ts';
import {traceHtml} from './trace-html.ts';
import {tree} from './tree.ts';

/** The output formats of `trace`. */
export const traceRenderers = {tree, json: traceJson, yaml: traceYaml, mermaid, dot, svg, html: traceHtml} as const satisfies Readonly<
  Record<string, Renderer>
>;
