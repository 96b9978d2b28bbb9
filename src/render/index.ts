import {json} from './json.ts';
import type {Renderer} from './renderer.ts';
import {table, wide} from './table.ts';
import {yaml} from './yaml.ts';

/** The output formats of `check`. A new format is one file and one line here. */
export const renderers = {table, wide, json, yaml} as const satisfies Readonly<Record<string, Renderer>>;
