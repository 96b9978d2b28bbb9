import {entryText} from '../../model/service-port.ts';
import {onlyRules, printedByNft, type Report} from '../../model/report.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {plural} from '../../model/text.ts';
import {escapeText, styleOf} from '../terminal-text.ts';
import type {Renderer} from '../renderer.ts';
import {portName} from '../trace-words.ts';
import {verdictLine} from '../verdict-line.ts';
import {wrapLines} from '../wrap.ts';
import {plainTable} from './plain-table.ts';

/** The Services that rules serve, one line a port. */
export const serviceList: Renderer = (report, options) => {
  const style = styleOf(options.color);
  const verdict = wrapLines(verdictLine(report, style), options.width);
  if (report.traces.length === 0) return [verdict, wrapLines(nothingListed(report), options.width)].join('\n\n');
  const said = saidOf(report);
  return [
    verdict,
    table(report, options.width),
    ...(said === '' ? [] : [wrapLines(said, options.width)]),
    `${plural(report.summary.services, 'Service')}; svc-trace trace NAME --from FILE draws one`,
  ].join('\n\n');
};

function nothingListed(report: Report): string {
  const isOfNft = report.nodes.some(({reason}) => reason === printedByNft);
  if (isOfNft) return `These are ${printedByNft}.`;
  return `These rules contain no Service of kube-proxy. ${saidOf(report)}`.trim();
}

/** What the text shows beside the Services. */
function saidOf({nodes}: Report): string {
  const [said = ''] = nodes.flatMap(({reason}) => (reason === undefined || reason === onlyRules ? [] : escapeText(reason)));
  return said;
}

function table({traces}: Report, width: number): string {
  const rows = traces.map(trace => [nameOf(trace), trace.port.protocol, endpointsOf(trace), entriesOf(trace)]);
  return plainTable(['SERVICE', 'PROTOCOL', 'ENDPOINTS', 'ENTRIES'], rows, width);
}

function nameOf(trace: PortTrace): string {
  return `${escapeText(portName(trace))}${trace.family === 'IPv6' ? ' (IPv6)' : ''}`;
}

function entriesOf({entries}: PortTrace): string {
  return entries.map(({entry}) => escapeText(entryText(entry))).join(', ');
}

function endpointsOf({entries}: PortTrace): string {
  const endpoints = new Set(entries.flatMap(entry => entry.endpoints.map(({hostPort}) => hostPort)));
  if (endpoints.size > 0) return String(endpoints.size);
  const [end] = entries.flatMap(entry => entry.end ?? []);
  if (end?.verdict === 'rejected') return 'none: refused';
  if (end?.verdict === 'dropped') return 'none: dropped';
  return end === undefined ? '0' : 'not in this text';
}
