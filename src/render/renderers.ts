import {github} from './ci/github.ts';
import {checkPage} from './html/pages.ts';
import {json, jsonPieces, yaml, yamlPieces} from './json.ts';
import {junit} from './ci/junit.ts';
import {markdown} from './ci/markdown.ts';
import {openreports, policyreport} from './policy/policy-report.ts';
import {prometheus} from './ci/prometheus.ts';
import {withNotRefused} from './trace-words.ts';
import {freshFindings} from './finding-blocks.ts';
import {type PieceRenderer, type Renderer, escapeText} from './renderer.ts';
import {sarif} from './ci/sarif.ts';
import {table, wide} from './table/table.ts';
import {namespacedName} from '../model/text.ts';

/** What has an error or a warning, one a line, as other commands take it: `shop/web`, and `node/NAME` for a fault of the node. */
const name: Renderer = ({findings}) => {
  const names = freshFindings(findings).map(({service, node}) =>
    service !== undefined ? namespacedName(service) : node === undefined ? '' : `node/${node}`,
  );
  return [...new Set(names)]
    .filter(text => text !== '')
    .sort()
    .map(escapeText)
    .join('\n');
};

/** Formats with a result for each finding say of it what the table says. */
function asSaid(renderer: Renderer): Renderer {
  return (report, options) => renderer({...report, findings: withNotRefused(report.findings, report.leftOut)}, options);
}

/** The output formats of `check`. A new format is one file and one line here. */
export const renderers = {
  table,
  wide,
  json,
  yaml,
  junit: asSaid(junit),
  sarif: asSaid(sarif),
  github,
  markdown,
  html: checkPage,
  prometheus,
  openreports: asSaid(openreports),
  policyreport: asSaid(policyreport),
  name,
} as const satisfies Readonly<Record<string, Renderer>>;

/** Formats whose text for a large cluster is hundreds of megabytes: it is written while it is made. */
export const pieceRenderers = {json: jsonPieces, yaml: yamlPieces} as const satisfies Partial<
  Readonly<Record<keyof typeof renderers, PieceRenderer>>
>;
