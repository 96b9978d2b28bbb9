import {github} from './ci/github.ts';
import {checkPage} from './html/check-page.ts';
import {json} from './json.ts';
import {junit} from './ci/junit.ts';
import {markdown} from './ci/markdown.ts';
import {openreports, policyreport} from './policy/policy-report.ts';
import {prometheus} from './ci/prometheus.ts';
import type {Renderer} from './renderer.ts';
import {sarif} from './ci/sarif.ts';
import {table, wide} from './table/table.ts';
import {yaml} from './yaml.ts';

/** The output formats of `check`. A new format is one file and one line here. */
export const renderers = {
  ...{table, wide, json, yaml, junit, sarif, github, markdown, html: checkPage, prometheus},
  ...{openreports, policyreport},
} as const satisfies Readonly<Record<string, Renderer>>;
