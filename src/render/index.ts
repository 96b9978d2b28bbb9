import {github} from './ci/github.ts';
import {checkPage, traceHtml} from './html/pages.ts';
import {json, jsonPieces, yaml, yamlPieces, place, reportObject, toJson, toYaml, entryFields} from './json.ts';
import {junit} from './ci/junit.ts';
import {markdown} from './ci/markdown.ts';
import {openreports, policyreport} from './policy/policy-report.ts';
import {prometheus} from './ci/prometheus.ts';
import {withNotRefused} from './trace-words.ts';
import {freshFindings} from './finding-blocks.ts';
import type {PieceRenderer, Renderer, RenderOptions} from './renderer.ts';
import {sarif} from './ci/sarif.ts';
import {table, wide} from './table/table.ts';
import {escapeText} from './terminal-text.ts';
import {namespacedName} from '../model/text.ts';
import type {Report} from '../model/report.ts';
import type {CountedRule, EndpointTrace, EntryTrace, PortTrace, UnservedAddress} from '../model/service-trace.ts';
import {dot, mermaid} from './graph/graph-languages.ts';
import {svg} from './graph/svg.ts';
import {tree} from './table/tree.ts';

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

/** The JSON of `check` for the chosen Services, and the packet path to each of their ports on each node. */
const traceJson: Renderer = (report, options) => toJson(traceObject(report, options));

const traceYaml: Renderer = (report, options) => toYaml(traceObject(report, options));

/** The output formats of `trace`. */
export const traceRenderers = {tree, json: traceJson, yaml: traceYaml, mermaid, dot, svg, html: traceHtml} as const satisfies Readonly<
  Record<string, Renderer>
>;

function traceObject(report: Report, options: RenderOptions): object {
  return {...reportObject(report, options), traces: report.traces.map(portObject)};
}

function portObject({entries, unserved, ...port}: PortTrace): object {
  return {...port, entries: entries.map(entryObject), ...(unserved === undefined ? {} : {unserved: unserved.map(unservedObject)})};
}

function unservedObject({kind, address, port, reason}: UnservedAddress): object {
  return {kind, ...(address === null ? {} : {address}), ...(port === 0 ? {} : {port}), reason};
}

function entryObject({entry, from, mark, steps, endpoints, end}: EntryTrace): object {
  return {
    entry: entryFields(entry),
    from,
    mark,
    steps: steps.map(countedPlace),
    endpoints: endpoints.map(endpointObject),
    ...(end === null ? {} : {end: {...end, rule: end.rule === null ? null : countedPlace(end.rule)}}),
  };
}

function endpointObject({pick, rewrite, hostPort, ...endpoint}: EndpointTrace): object {
  return {
    endpoint: hostPort,
    ...endpoint,
    pick: pick === null ? null : countedPlace(pick),
    rewrite: rewrite === null ? null : countedPlace(rewrite),
  };
}

/** With the counters, if the dump has them. */
function countedPlace(rule: CountedRule): object {
  const {packets, bytes, connections, rounded} = rule;
  return {...place(rule), packets, bytes, connections, rounded};
}
