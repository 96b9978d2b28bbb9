import {someOf, servicePortText} from '../../model/text.ts';
import {
  type CellTraffic,
  type EndpointTraffic,
  type NodeTraffic,
  type PortTraffic,
  type TrafficReport,
  type PortTotals,
  perSecond,
} from '../../model/traffic/traffic-report.ts';
import {largest, partition, pushTo} from '../../model/lists.ts';
import {escapeText, type Style, styleOf, proseWidth, visibleLength, wrap, plainTable, type RenderOptions} from '../renderer.ts';
import {findingTexts} from '../table/finding-text.ts';
import {findingObject, schemaVersion, toJson} from '../json.ts';
import {percent} from '../trace-words.ts';

type TopRenderer = (report: TrafficReport, options: RenderOptions) => string;

/** The output formats of `top`. */
export const topRenderers = {
  table: (report, options) => topTable(report, {...options, wide: false}),
  wide: (report, options) => topTable(report, {...options, wide: true}),
  json: topJson,
} as const satisfies Readonly<Record<string, TopRenderer>>;

interface TopTableOptions extends Pick<RenderOptions, 'color' | 'width' | 'quiet'> {
  /** Also a row for each node. */
  readonly wide: boolean;
  /** The endpoints of a Service port that have rows, in their order; null leaves the port out. All of them if this is left out. */
  readonly rowsOf?: (port: PortTraffic) => readonly EndpointTraffic[] | null;
}

/** The answer, a table for each Service port, conspicuous ones first, the findings, and what was not measured and why. */
export function topTable(report: TrafficReport, options: TopTableOptions): string {
  const style = styleOf(options.color);
  const {ports, interval} = report;
  const quiet = ports.length > 1 ? ports.filter(isIdle) : [];
  const isShown = (port: PortTraffic): boolean => options.rowsOf?.(port) !== null;
  const shown = ports.filter(port => !quiet.includes(port) && isShown(port));
  const blocks = shown.flatMap(port => {
    const table = portTable(port, {...options, isRate: interval !== null, style});
    if (ports.length === 1) return ['', table];
    return ['', ...wrap(`${style.bold(portLabel(port))}: ${portSentence(port, interval)}`, options.width, ''), table];
  });
  const findings = findingTexts(report.findings, {style, width: options.width, max: options.wide ? Infinity : 3, spread: options.wide});
  return [
    ...wrap(answerLine(report), options.width, '').map(line => style.bold(line)),
    ...(options.quiet ? [] : blocks),
    ...(ports.length === 0 || ports.some(isShown) ? [] : ['', 'No Service port, endpoint, pod or node contains the text of the filter.']),
    ...(!quiet.some(isShown) || options.quiet ? [] : ['', ...idleLines(quiet.filter(isShown), options.width)]),
    ...findings.flatMap(text => ['', text]),
    ...notes(report.nodes, options.width, style),
    ...inexact(report.nodes, options.width),
  ].join('\n');
}

/** No new connections, and none open as far as that was measured. A Service without endpoints cannot have any. */
function isIdle({totals, endpoints}: PortTraffic): boolean {
  if (endpoints.length === 0) return true;
  return (totals.newPerSecond ?? totals.totalConnections) === 0 && (totals.openConnections ?? 0) === 0 && !endpoints.some(isOddEndpoint);
}

function idleLines(ports: readonly PortTraffic[], width: number): readonly string[] {
  const [idle, unknown] = partition(ports, ({totals, endpoints}) => endpoints.length === 0 || totals.openConnections !== null);
  const line = (those: readonly PortTraffic[], what: string): readonly string[] =>
    those.length === 0 ? [] : wrap(someOf(those.map(portLabel), {max: 10}), width, what);
  return [...line(idle, 'no connections: '), ...line(unknown, 'no new connections (open ones were not measured): ')];
}

interface PortTableOptions extends TopTableOptions {
  readonly isRate: boolean;
  readonly style: Style;
}

function portTable(port: PortTraffic, options: PortTableOptions): string {
  const {wide, isRate} = options;
  const head = [
    'ENDPOINT',
    'POD',
    'STATE',
    ...(wide ? ['NODE'] : []),
    ...['EXPECTED', 'RULES', 'SHARE', isRate ? 'NEW/S' : 'TOTAL', 'OPEN', ...(wide ? ['CLOSING'] : [])].map(title => ({right: title})),
  ];
  const rows = (options.rowsOf?.(port) ?? port.endpoints).flatMap(endpoint => endpointRows(endpoint, port, options));
  return fitted(head, rows, options);
}

type TextCell = string | {readonly right: string};

function endpointRows(
  endpoint: EndpointTraffic,
  {service, endpoints}: PortTraffic,
  {wide, isRate, style}: PortTableOptions,
): readonly (readonly TextCell[])[] {
  const {hostPort, pod, state, totals, nodes} = endpoint;
  const own = pod?.startsWith(`${service.namespace}/`) ? pod.slice(service.namespace.length + 1) : pod;
  const name = escapeText(own ?? (state === 'stale' ? 'none' : '-'));
  const stateText = state === 'ready' ? state : state === 'stale' ? style.red(state) : style.yellow(state);
  const share = isOdd(totals.deviation) ? style.yellow(shareText(totals.share)) : shareText(totals.share);
  const count = isRate ? rateText(totals.newPerSecond) : numberText(totals.totalConnections);
  const numbers = [shareText(totals.dueShare), shareText(totals.expectedShare), share, count, numberText(totals.openConnections)];
  const first = [
    hostPort,
    name,
    stateText,
    ...(wide ? ['all'] : []),
    ...right([...numbers, ...(wide ? [numberText(totals.closingConnections)] : [])]),
  ];
  if (!wide) return [first];
  return [first, ...nodes.map(cell => ['', '', '', escapeText(cell.node), ...right(nodeNumbers(cell, endpoints, isRate))])];
}

function nodeNumbers(cell: CellTraffic, endpoints: readonly EndpointTraffic[], isRate: boolean): readonly string[] {
  const count = ({newConnections, totalConnections}: CellTraffic): number | null => (isRate ? newConnections : totalConnections);
  const ofNode = endpoints.flatMap(({nodes}) => nodes.filter(({node}) => node === cell.node).map(count));
  const all = ofNode.some(one => one === null) ? null : ofNode.reduce<number>((sum, one) => sum + (one ?? 0), 0);
  const own = count(cell);
  return [
    shareText(cell.dueShare),
    shareText(cell.expectedShare),
    shareText(all === null || all === 0 || own === null ? null : own / all),
    isRate ? rateText(perSecond(cell)) : numberText(own),
    numberText(cell.openConnections),
    numberText(cell.closingConnections),
  ];
}

function right(texts: readonly string[]): readonly TextCell[] {
  return texts.map(text => ({right: text}));
}

/** Numbers are right-aligned; pod names are shortened if the table would be too wide. */
function fitted(head: readonly TextCell[], rows: readonly (readonly TextCell[])[], {width}: PortTableOptions): string {
  const textOf = (cell: TextCell | undefined): string => (cell === undefined ? '' : typeof cell === 'string' ? cell : cell.right);
  const all = [head, ...rows];
  const widths = head.map((_, column) => largest(all.map(cells => visibleLength(textOf(cells[column])))));
  const excess = widths.reduce((sum, one) => sum + one + 2, -2) - width;
  const podWidth = Math.max((widths[podColumn] ?? 0) - Math.max(excess, 0), minPodWidth);
  const line = (cells: readonly TextCell[]): readonly string[] =>
    cells.map((cell, column) => {
      if (typeof cell !== 'string') return ' '.repeat((widths[column] ?? 0) - visibleLength(cell.right)) + cell.right;
      return column === podColumn && cell.length > podWidth ? `${cell.slice(0, podWidth - 1)}…` : cell;
    });
  return plainTable(line(head), rows.map(line));
}

const podColumn = 1;
const minPodWidth = 6;

/** Where rates can be off by more than 2 %: the worst node, and the others by their names. */
function inexact(nodes: readonly NodeTraffic[], width: number): readonly string[] {
  const loose = nodes.filter(({rateError}) => (rateError ?? 0) > maxRateError);
  if (loose.length === 0) return [];
  const worst = largest(loose.map(({rateError}) => rateError ?? 0));
  const names = loose.map(({name}) => name);
  const text = `Rates of ${escapeText(someOf(names, {noun: 'node'}))} can be off by ${Math.ceil(worst * 100)}%: a read takes that part of the interval. A longer --interval is more exact.`;
  return ['', ...wrap(text, proseWidth(width), '')];
}

const maxRateError = 0.02;

/** What was not measured, and why; each reason once. */
function notes(nodes: readonly NodeTraffic[], width: number, style: Style): readonly string[] {
  const byReason = new Map<string, string[]>();
  for (const {name, status, reason} of nodes) {
    if (reason === undefined) continue;
    const text = status === 'unread' ? `not read: ${reason}` : status === 'unsupported' ? `not counted: ${reason}` : reason;
    pushTo(byReason, text, name);
  }
  const lines = [...byReason].flatMap(([text, names]) =>
    wrap(escapeText(`${someOf(names, {noun: 'node'})}: ${text}`), proseWidth(width), '- '),
  );
  return lines.length === 0 ? [] : ['', style.dim('Not measured (-):'), ...lines];
}

/**
 * The JSON of `top`, as docs/top.schema.json describes it.
 * @internal
 */
export function topJson({tool, findings, ...traffic}: TrafficReport): string {
  return toJson({schemaVersion, tool, ...trafficObject(traffic), findings: findings.map(findingObject)});
}

/** The part of it that is about connections. */
export function trafficObject({interval, ports, nodes}: Pick<TrafficReport, 'interval' | 'ports' | 'nodes'>): object {
  return {
    interval: interval === null ? null : rounded(interval),
    services: ports.map(({service, port, family, endpoints}) => ({...service, port, family, endpoints: endpoints.map(endpointObject)})),
    nodes: nodes.map(({name, status, reason, proxyMode, sources, rateError}) => ({
      name,
      status,
      reason,
      proxyMode,
      source: sources,
      rateError: rateError === null ? undefined : rounded(rateError),
    })),
  };
}

function endpointObject({hostPort, pod, podNode, state, nodes}: EndpointTraffic): object {
  return {endpoint: hostPort, pod: pod ?? undefined, podNode: podNode ?? undefined, state, nodes: nodes.map(cellObject)};
}

function cellObject(cell: CellTraffic): object {
  const rate = perSecond(cell);
  return {
    node: cell.node,
    newConnections: rate === null ? null : rounded(rate),
    openConnections: cell.openConnections,
    closingConnections: cell.closingConnections,
    totalConnections: cell.totalConnections,
    expectedShare: cell.expectedShare === null ? null : Number(cell.expectedShare.toFixed(9)),
    dueShare: cell.dueShare === null ? null : Number(cell.dueShare.toFixed(9)),
  };
}

function rounded(value: number): number {
  return Number(value.toFixed(3));
}

/** The first line: which endpoints get the connections, in a sentence. Escaped. */
export function answerLine(report: TrafficReport): string {
  const {ports, nodes} = report;
  const [only] = ports;
  if (only === undefined) return nothingMeasured(nodes);
  return ports.length === 1 ? `${portLabel(only)}: ${portSentence(only, report.interval)}` : manyPorts(report);
}

function nothingMeasured(nodes: TrafficReport['nodes']): string {
  if (nodes.length === 0) return 'No node is known';
  const unread = nodes.filter(({status}) => status === 'unread').length;
  const others = nodes.filter(({status}) => status === 'unsupported').length;
  if (others === nodes.length) return `Not measured: nothing counts the connections of ${counted(others, 'node')}`;
  if (unread === 0) return 'No node serves these Services';
  const rest = unread === nodes.length ? '' : '; no other node serves these Services';
  return `Not measured: ${unread} of ${counted(nodes.length, 'node')} could not be read${rest}`;
}

/** `shop/web:http`, with the family unless it is IPv4. Escaped. */
export function portLabel({service, port, family}: PortTraffic): string {
  return escapeText(`${servicePortText(service, port)}${family === 'IPv6' ? ' (IPv6)' : ''}`);
}

/** The sentence about one Service port. Escaped. */
function portSentence(port: PortTraffic, interval: number | null): string {
  if (port.endpoints.length === 0) return 'it has no endpoints';
  return [`${amount(port.totals, interval)}${spread(port)}`, ...leftOver(port), ...openText(port.totals)].join('; ');
}

function amount({newPerSecond, totalConnections, measuredNodes, nodes}: PortTotals, interval: number | null): string {
  const where = measuredNodes === nodes ? counted(nodes, 'node') : `${measuredNodes} of ${counted(nodes, 'node')}`;
  if (interval === null) {
    if (totalConnections === null) return 'the connections so far were not counted';
    return `${counted(totalConnections, 'connection')} since kube-proxy wrote the rules, on ${where}`;
  }
  if (newPerSecond === null) return `new connections were not measured on ${nodes === 1 ? 'the node' : `any of ${counted(nodes, 'node')}`}`;
  if (newPerSecond === 0) return `no new connections in ${rateText(interval)} s on ${where}`;
  return `${rateText(newPerSecond)} new connections/s on ${where}`;
}

function spread({endpoints}: PortTraffic): string {
  const gone = endpoints.filter(({state, totals}) => state === 'stale' && (totals.share ?? 0) > 0);
  const lost = gone.reduce((sum, {totals}) => sum + (totals.share ?? 0), 0);
  if (gone.length > 0)
    return `, ${percent(lost)} of them to ${gone.length === 1 ? gone[0]?.hostPort : counted(gone.length, 'address', 'addresses')} no longer serving`;
  const odd = endpoints.find(({totals}) => isOdd(totals.deviation));
  if (odd !== undefined) {
    const {share, expectedShare} = odd.totals;
    return `, uneven: ${odd.hostPort} gets ${percent(share ?? 0)} where the rules give it ${percent(expectedShare ?? 0)}`;
  }
  const served = endpoints.filter(({totals}) => (totals.expectedShare ?? 0) > 0);
  const getting = endpoints.filter(({totals}) => (totals.share ?? 0) > 0);
  if (getting.length === 0) return '';
  const wrong = endpoints.find(
    ({totals: {dueShare: due, expectedShare: given}}) => due !== null && given !== null && Math.abs(due - given) > 0.005,
  );
  if (wrong !== undefined) {
    const {dueShare, expectedShare} = wrong.totals;
    return `, not spread as kube-proxy should: the rules give ${wrong.hostPort} ${percent(expectedShare ?? 0)}, not ${percent(dueShare ?? 0)}`;
  }
  if (served.length === 1 && getting.length === 1) return ', all to its only endpoint';
  const isDecided = served.length > 0 && served.every(({totals}) => totals.deviation !== null);
  if (isDecided) return `, spread over ${counted(served.length, 'endpoint')} as expected`;
  if (getting.length === 1) return `, all to one of ${counted(served.length, 'endpoint')}`;
  return `, spread over ${counted(getting.length, 'endpoint')}`;
}

/** A larger deviation is not random. In standard deviations. */
function isOdd(deviation: number | null): boolean {
  return Math.abs(deviation ?? 0) >= 4.5;
}

function leftOver({endpoints}: PortTraffic): readonly string[] {
  return (['stale', 'terminating'] as const).flatMap(state => {
    const those = endpoints.filter(endpoint => endpoint.state === state);
    const open = those.reduce((sum, {totals}) => sum + (totals.openConnections ?? 0), 0);
    if (open === 0) return [];
    const what = state === 'stale' ? `${counted(those.length, 'address', 'addresses')} no longer serving` : `${those.length} terminating`;
    return [`${numberText(open)} open to ${what}`];
  });
}

function openText({openConnections}: PortTotals): readonly string[] {
  return openConnections === null ? [] : [`${numberText(openConnections)} open`];
}

function manyPorts({ports, nodes, interval}: TrafficReport): string {
  const sum = (value: (totals: PortTotals) => number | null): number | null => {
    const known = ports.map(({totals}) => value(totals)).filter(one => one !== null);
    return known.length === 0 ? null : known.reduce((total, one) => total + one, 0);
  };
  const measured = largest(ports.map(({totals: {measuredNodes}}) => measuredNodes));
  const where = measured === nodes.length ? counted(nodes.length, 'node') : `${measured} of ${counted(nodes.length, 'node')}`;
  const rate = interval === null ? sum(({totalConnections}) => totalConnections) : sum(({newPerSecond}) => newPerSecond);
  const open = sum(({openConnections}) => openConnections);
  const amounts = [
    ...(rate === null ? [] : [interval === null ? `${counted(rate, 'connection')} so far` : `${rateText(rate)} new connections/s`]),
    ...(open === null ? [] : [`${numberText(open)} open`]),
  ];
  const odd = ports.filter(({endpoints}) => endpoints.some(isOddEndpoint)).map(portLabel);
  const oddText = odd.length === 0 ? '' : `; look at ${someOf(odd, {max: 3})}`;
  return `${counted(ports.length, 'Service port')} on ${where}: ${amounts.length === 0 ? 'nothing was measured' : amounts.join(', ')}${oddText}`;
}

/** It is stale and still gets connections, or it gets another share than its rules give it. */
function isOddEndpoint({state, totals}: EndpointTraffic): boolean {
  const gets = (totals.newPerSecond ?? 0) > 0 || (totals.openConnections ?? 0) > 0;
  return (state === 'stale' && gets) || isOdd(totals.deviation);
}

/** Null is "not measured", which is not 0. */
function numberText(value: number | null): string {
  return value === null ? notMeasured : value.toLocaleString('en-US');
}

export function rateText(value: number | null): string {
  return value === null ? notMeasured : value.toLocaleString('en-US', {minimumFractionDigits: 1, maximumFractionDigits: 1});
}

export function shareText(value: number | null): string {
  return value === null ? notMeasured : `${(value * 100).toFixed(1)}%`;
}

function counted(number: number, one: string, many = `${one}s`): string {
  return `${numberText(number)} ${number === 1 ? one : many}`;
}

const notMeasured = '-';
