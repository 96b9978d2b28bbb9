import type {Renderer} from './renderer.ts';
import {traceJson, traceYaml} from './trace-json.ts';
import {tree} from './tree.ts';

/** The output formats of `trace`. */
export const traceRenderers = {tree, json: traceJson, yaml: traceYaml} as const satisfies Readonly<Record<string, Renderer>>;
