import type {Report} from '../model/report.ts';
import type {CountedRule, EntryTrace, PortTrace, UnservedAddress} from '../model/service-trace.ts';
import {dot, mermaid} from './graph/graph-languages.ts';
import {svg} from './graph/svg.ts';
import {traceHtml} from './html/pages.ts';
import {place, reportObject, toJson, toYaml, entryFields} from './json.ts';
import type {Renderer, RenderOptions} from './renderer.ts';
import {tree} from './table/tree.ts';

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
  return {...port, entries: entries.map(entryObject), unserved: unserved?.map(unservedObject)};
}

function unservedObject({kind, address, port, reason}: UnservedAddress): object {
  return {kind, address: address ?? undefined, ...(port === 0 ? {} : {port}), reason};
}

function entryObject({entry, from, mark, steps, endpoints, end}: EntryTrace): object {
  return {
    entry: entryFields(entry),
    from,
    mark,
    steps: steps.map(countedPlace),
    endpoints: endpoints.map(({pick, rewrite, hostPort, ...endpoint}) => ({
      endpoint: hostPort,
      ...endpoint,
      pick: pick === null ? null : countedPlace(pick),
      rewrite: rewrite === null ? null : countedPlace(rewrite),
    })),
    end: end === null ? undefined : {...end, rule: end.rule === null ? null : countedPlace(end.rule)},
  };
}

/** With the counters, if the dump has them. */
function countedPlace(rule: CountedRule): object {
  const {packets, bytes, connections, rounded} = rule;
  return {...place(rule), packets, bytes, connections, rounded};
}
