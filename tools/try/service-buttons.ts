import type {Report} from '../../src/model/report.ts';
import {entryText} from '../../src/model/service-port.ts';
import {type EntryTrace, isFaulty, type PortTrace} from '../../src/model/service-trace.ts';
import {namespacedName, plural} from '../../src/model/text.ts';
import {type Html, html, nothing} from '../../src/render/markup.ts';

/** A Service in the rules, to be chosen. */
interface ListedService {
  /** What the field of the Service takes. */
  readonly name: string;
  readonly about: string;
  /** What is wrong, in a word or two. */
  readonly fault: string;
}

/** The Services of a report of rules alone, those with faults first. */
export function listedServices(report: Report): readonly ListedService[] {
  const byName = new Map<string, PortTrace[]>();
  for (const trace of report.traces) {
    const name = nameOf(trace);
    const own = byName.get(name) ?? [];
    own.push(trace);
    byName.set(name, own);
  }
  const faulty = chainsWithFindings(report);
  const all = [...byName].map(([name, traces]) => ({name, about: aboutOf(traces), fault: faultOf(traces, faulty)}));
  return [...all.filter(({fault}) => fault !== ''), ...all.filter(({fault}) => fault === '')];
}

/** Rules without comments and IPVS have no names: a chain or an address stands for them. */
function nameOf({service}: PortTrace): string {
  return service.namespace === 'unnamed' || service.namespace === 'ipvs' ? service.name : namespacedName(service);
}

function aboutOf(traces: readonly PortTrace[]): string {
  const entries = traces.flatMap(trace => trace.entries);
  const endpoints = new Set(entries.flatMap(entry => entry.endpoints.map(({hostPort}) => hostPort)));
  const [first] = entries;
  const address = first === undefined || first.entry.address === null ? '' : `, ${entryText(first.entry)}`;
  return `${endpoints.size === 0 ? noEndpoint(entries) : plural(endpoints.size, 'endpoint')}${address}`;
}

function noEndpoint(entries: readonly EntryTrace[]): string {
  const [end] = entries.flatMap(entry => entry.end ?? []);
  if (end?.verdict === 'rejected') return 'no endpoint: refused';
  if (end?.verdict === 'dropped') return 'no endpoint: dropped';
  return end === undefined ? 'no endpoint' : 'endpoints are not in this text';
}

function faultOf(traces: readonly PortTrace[], faulty: ReadonlyMap<string, string>): string {
  for (const {entries} of traces)
    for (const {steps, endpoints} of entries) {
      const chains = [...steps.flatMap(({chain, to}) => [chain, to]), ...endpoints.map(({pick}) => pick?.chain ?? '')];
      const found = chains.map(chain => faulty.get(chain)).find(each => each !== undefined);
      if (found !== undefined) return found;
      if (endpoints.some(({mark}) => isFaulty(mark))) return 'wrong';
    }
  return '';
}

function chainsWithFindings({findings}: Report): ReadonlyMap<string, string> {
  const told = findings.filter(({severity}) => severity !== 'info');
  return new Map(
    told.flatMap(({code, name, actual = []}) => actual.map(({chain}) => [chain, `${code} ${name.replaceAll('-', ' ')}`] as const)),
  );
}

/** A list to click. Nothing for rules without Services. */
export function serviceButtons(services: readonly ListedService[]): Html {
  if (services.length === 0) return nothing;
  const shown = services.slice(0, maxButtons);
  const rest = services.length - shown.length;
  return html`<p class="note">${plural(services.length, 'Service')} in these rules${rest === 0 ? '' : `; ${rest} of them are not listed, but can be named above`}</p>
${shown.map(({name, about, fault}) => html`<button type="button" value="${name}"${fault === '' ? nothing : html` class="warning"`}>${name}<span>${fault === '' ? nothing : html`<b>✗ ${fault}</b> · `}${about}</span></button>`)}`;
}

const maxButtons = 500;
