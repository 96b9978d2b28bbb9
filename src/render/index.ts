import {github} from './ci/github.ts';
import {checkPage} from './html/pages.ts';
import {json, jsonPieces, yaml, yamlPieces} from './json.ts';
import {junit} from './ci/junit.ts';
import {markdown} from './ci/markdown.ts';
import {openreports, policyreport} from './policy/policy-report.ts';
import {prometheus} from './ci/prometheus.ts';
import type {PieceRenderer, Renderer} from './renderer.ts';
import {sarif} from './ci/sarif.ts';
import {table, wide} from './table/table.ts';

/** The output formats of `check`. A new format is one file and one line here. */
export const renderers = {
  ...{table, wide, json, yaml, junit, sarif, github, markdown, html: checkPage, prometheus},
  ...{openreports, policyreport},
} as const satisfies Readonly<Record<string, Renderer>>;

/** Formats whose text for a large cluster is hundreds of megabytes: it is written while it is made. */
export const pieceRenderers = {json: jsonPieces, yaml: yamlPieces} as const satisfies Partial<
  Readonly<Record<keyof typeof renderers, PieceRenderer>>
>;
