import {github} from './github.ts';
import {html} from './html.ts';
import {json} from './json.ts';
import {junit} from './junit.ts';
import {markdown} from './markdown.ts';
import {openreports, policyreport} from './policy-report.ts';
import {prometheus} from './prometheus.ts';
import type {Renderer} from './renderer.ts';
import {sarif} from './sarif.ts';
import {table, wide} from './table.ts';
import {yaml} from './yaml.ts';

/** The output formats of `check`. A new format is one file and one line here. */
export const renderers = {
  ...{table, wide, json, yaml, junit, sarif, github, markdown, html, prometheus},
  ...{openreports, policyreport},
} as const satisfies Readonly<Record<string, Renderer>>;
