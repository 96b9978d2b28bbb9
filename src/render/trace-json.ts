import type {EndpointTrace, EntryTrace, PortTrace} from '../model/service-trace.ts';
import {place, reportObject, toJson} from './json.ts';
import type {Report} from '../model/report.ts';
import type {Renderer} from './renderer.ts';
import {toYaml} from './yaml.ts';

/** The JSON of `check` for the Services at hand, and the way of packets to each of their ports on each node. */
export const traceJson: Renderer = report => toJson(traceObject(report));

export const traceYaml: Renderer = report => toYaml(traceObject(report));

function traceObject(report: Report): object {
  return {...reportObject(report), traces: report.traces.map(portObject)};
}

function portObject({entries, ...port}: PortTrace): object {
  return {...port, entries: entries.map(entryObject)};
}

function entryObject({entry, from, mark, steps, endpoints, end}: EntryTrace): object {
  return {
    entry: {kind: entry.kind, ...(entry.address === null ? {} : {address: entry.address}), port: entry.port},
    ...{from, mark, steps: steps.map(place), endpoints: endpoints.map(endpointObject)},
    ...(end === null ? {} : {end: {...end, rule: end.rule === null ? null : place(end.rule)}}),
  };
}

function endpointObject({pick, rewrite, hostPort, ...endpoint}: EndpointTrace): object {
  return {endpoint: hostPort, ...endpoint, pick: pick === null ? null : place(pick), rewrite: rewrite === null ? null : place(rewrite)};
}
