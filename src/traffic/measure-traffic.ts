import {checks} from '../checks/all-checks.ts';
import {staleConntrack} from '../checks/st508-stale-conntrack.ts';
import {fromWhom, type TrafficContext} from '../checks/traffic-context.ts';
import {sortFindings, toFinding} from '../diagnosis/to-finding.ts';
import {podOf} from '../model/endpoint.ts';
import {type Finding, ofPort} from '../model/finding.ts';
import {largest, pushTo, uniqueBy} from '../model/lists.ts';
import {compareText} from '../model/text.ts';
import {
  type CellTraffic,
  type EndpointTotals,
  type EndpointTraffic,
  type NodeTraffic,
  type PortTotals,
  type PortTraffic,
  type TrafficReport,
  type TrafficSource,
  perSecond,
} from '../model/traffic/traffic-report.ts';
import {type MeasuredPort, measurePort, rateError, type Reads, secondsBetween, type NodeSample} from './measure-port.ts';
import type {NodeSurvey, SurveyedPort} from './node-survey.ts';

/** One node with all its measurements. */
interface MeasuredNode {
  readonly survey: NodeSurvey;
  readonly node: NodeTraffic;
  /** Null if nothing could be read. */
  readonly read: Reads | null;
  readonly ports: ReadonlyMap<string, MeasuredPort>;
}

/** A node with its counters; `after` is null if nothing could be read. */
export interface NodeRead {
  readonly survey: NodeSurvey;
  readonly before: NodeSample | null;
  readonly after: NodeSample | null;
  /** Why nothing was counted. */
  readonly failure?: string | undefined;
}

interface TrafficOptions {
  readonly toolVersion: string;
  /** Whether there were two reads. */
  readonly isRate: boolean;
}

/** Which endpoints get the connections, from the reads of each node. */
export function trafficReport(reads: readonly NodeRead[], options: TrafficOptions): TrafficReport {
  const measured = reads.map(read => measureNode(read, options.isRate));
  const ports = portsOf(measured).map(port => portTraffic(port, measured, options.isRate));
  const seconds = measured.flatMap(({read}) => (read === null || read.before === null ? [] : [secondsBetween(read) ?? 0]));
  const findings = sortFindings(trafficFindings(measured));
  return {
    tool: {name: 'svc-trace', version: options.toolVersion},
    interval: options.isRate && seconds.length > 0 ? seconds.reduce((sum, one) => sum + one, 0) / seconds.length : null,
    ports: ports.sort(byPortOddness(findings)),
    nodes: measured.map(({node}) => node).sort((a, b) => (a.name < b.name ? -1 : 1)),
    findings,
  };
}

function measureNode({survey, before, after, failure}: NodeRead, isRate: boolean): MeasuredNode {
  const {name, mode} = survey;
  const proxyMode = mode === null ? {} : {proxyMode: mode};
  if (after === null || survey.status !== 'checked') {
    const status = survey.status === 'unsupported' ? 'unsupported' : 'unread';
    const reason = survey.reason ?? failure ?? 'nothing was read';
    return {survey, read: null, ports: new Map(), node: {name, status, reason, ...proxyMode, sources: [], rateError: null}};
  }
  const read = {before, after};
  const ports = new Map(survey.ports.map(port => [port.key, measurePort(survey, port, read)]));
  const reason = isRate && before === null ? firstFailed : reasonOf(survey, ports, after);
  const status = reason === null ? 'measured' : 'partial';
  return {
    survey,
    read,
    ports,
    node: {name, status, reason: reason ?? undefined, ...proxyMode, sources: sourcesOf(survey, after), rateError: rateError(read)},
  };
}

const firstFailed = 'a rate takes two reads, and the first one failed';

/** Each reason once, with the Service ports concerned if not all are. */
function reasonOf(
  {ports: surveyed}: NodeSurvey,
  ports: ReadonlyMap<string, MeasuredPort>,
  {connections, missing, ipvs}: NodeSample,
): string | null {
  const byReason = new Map<string, string[]>();
  for (const {key, port} of surveyed) {
    const reason = ports.get(key)?.reason ?? null;
    if (reason !== null) pushTo(byReason, reason, port.servicePortName);
  }
  const reasons = [...byReason].map(([reason, names]) =>
    new Set(names).size < surveyed.length ? `${[...new Set(names)].join(', ')}: ${reason}` : reason,
  );
  const noOpen = connections === null && ipvs.length === 0 ? [`open connections: ${missing.conntrack ?? 'conntrack was not read'}`] : [];
  const all = [...new Set([...reasons, ...noOpen])];
  return all.length === 0 ? null : all.join('; ');
}

function sourcesOf({mode}: NodeSurvey, {nat, ipvs, connections}: NodeSample): readonly TrafficSource[] {
  return [
    ...(mode === 'iptables' && [...nat.values()].some(({counted}) => counted) ? (['counters'] as const) : []),
    ...(connections === null ? [] : (['conntrack'] as const)),
    ...(mode === 'ipvs' && ipvs.length > 0 ? (['ipvs'] as const) : []),
  ];
}

/** Every Service port that some node serves, without duplicates. */
function portsOf(nodes: readonly MeasuredNode[]): readonly SurveyedPort[] {
  const all = nodes.flatMap(({survey}) => survey.ports);
  return uniqueBy(all, ({key}) => key);
}

function portTraffic(surveyed: SurveyedPort, nodes: readonly MeasuredNode[], isRate: boolean): PortTraffic {
  const {port, key} = surveyed;
  const cells = nodes.flatMap(({ports}) => [...(ports.get(key)?.cells ?? [])]);
  const names = [...new Set(cells.map(([name]) => name))];
  const perNode = nodes.flatMap(({ports}) => ports.get(key)?.cells ?? []);
  const isRandom = nodes.every(({survey}) => survey.ports.find(one => one.key === key)?.isRandom ?? true);
  const endpoints = names.flatMap(name => {
    const own = cells.filter(([hostPort]) => hostPort === name).map(([, cell]) => cell);
    const totals = endpointTotals(name, perNode, {isRate, isRandom});
    const endpoint: EndpointTraffic = {hostPort: name, ...whatItIs(name, surveyed), totals, nodes: own.sort(byNode)};
    return isShown(endpoint) ? [endpoint] : [];
  });
  return {
    ...ofPort(port),
    endpoints: endpoints.sort(byOddness),
    totals: {...portTotals(perNode, isRate), nodes: nodes.filter(({node: {status}}) => status !== 'unsupported').length},
  };
}

function byNode(a: CellTraffic, b: CellTraffic): number {
  return a.node < b.node ? -1 : 1;
}

function whatItIs(hostPort: string, {set}: SurveyedPort): Pick<EndpointTraffic, 'pod' | 'podNode' | 'state'> {
  const known = set.endpoints.find(endpoint => endpoint.hostPort === hostPort);
  if (known === undefined) return {pod: null, podNode: null, state: 'stale'};
  const state = known.ready ? 'ready' : known.terminating && known.serving ? 'terminating' : 'stale';
  return {pod: podOf(known), podNode: known.nodeName, state};
}

/** An address that is not a usable endpoint is shown if it gets connections, or should get some. */
function isShown({state, totals, nodes}: EndpointTraffic): boolean {
  if (state !== 'stale' || (totals.newPerSecond ?? 0) > 0 || (totals.openConnections ?? 0) > 0) return true;
  return nodes.some(({expectedShare, dueShare}) => (expectedShare ?? 0) > 0 || (dueShare ?? 0) > 0);
}

/** The findings about the counters of each node. */
function trafficFindings(nodes: readonly MeasuredNode[]): readonly Finding[] {
  return nodes.flatMap(({survey, read, ports}) =>
    survey.ports.flatMap(surveyed => {
      const cells = ports.get(surveyed.key)?.cells;
      if (cells === undefined || read === null) return [];
      const connections = read.after.connections?.get(surveyed.key);
      const {clients = null, endpoints: tracked = null} = connections ?? {};
      const context = {node: survey.name, entry: surveyed, cells, clients, tracked, isRandom: surveyed.isRandom};
      const found = checks.flatMap(check => [...(check.traffic?.(context) ?? [])].map(observation => toFinding(check, observation)));
      return [...found, ...staleFlows(context, surveyed, read)];
    }),
  );
}

/** kube-proxy deletes the flows of a removed endpoint soon after: a single read may show them just before. */
function staleFlows({node, cells, tracked}: TrafficContext, {port, set, key}: SurveyedPort, {before}: Reads): readonly Finding[] {
  if (port.protocol !== 'UDP' || set.endpoints.length === 0) return [];
  const old = before?.connections?.get(key)?.endpoints;
  return [...cells].flatMap(([hostPort, {openConnections}]) => {
    const isEndpoint = set.endpoints.some(endpoint => endpoint.hostPort === hostPort);
    if (!openConnections || isEndpoint || (old !== undefined && !old.get(hostPort)?.open)) return [];
    const flows = openConnections === 1 ? '1 tracked UDP flow leads' : `${openConnections} tracked UDP flows lead`;
    const message = `${port.servicePortName}: ${flows} to ${hostPort}, no endpoint of the Service${fromWhom({tracked}, hostPort)}`;
    return [toFinding(staleConntrack, {...ofPort(port), node, endpoint: hostPort, message})];
  });
}

/** Endpoints, conspicuous ones first: stale ones, terminating ones, those with another share than their rules give them. */
function byOddness(a: EndpointTraffic, b: EndpointTraffic): number {
  return rank(b) - rank(a) || oddDeviation(b) - oddDeviation(a) || compareText(a.hostPort, b.hostPort);
}

function rank({state, totals}: EndpointTraffic): number {
  if (state === 'stale') return 3;
  if (state === 'terminating') return 2;
  return oddDeviation({totals}) > 0 ? 1 : 0;
}

function getsSomething({totals}: EndpointTraffic): boolean {
  return (totals.newPerSecond ?? 0) > 0 || (totals.openConnections ?? 0) > 0;
}

/** A larger deviation is not random: the probability is less than one in 300,000. */
const oddFrom = 4.5;

function oddDeviation({totals}: Pick<EndpointTraffic, 'totals'>): number {
  const deviation = Math.abs(totals.deviation ?? 0);
  return deviation >= oddFrom ? deviation : 0;
}

/** Service ports: those with findings first, then those with conspicuous endpoints, then those with most connections. */
function byPortOddness(findings: readonly Finding[]): (a: PortTraffic, b: PortTraffic) => number {
  const severity = new Map<string, number>();
  for (const {service, port, severity: name} of findings) {
    const key = `${service?.namespace}/${service?.name} ${port?.name} ${port?.protocol}`;
    severity.set(key, Math.max(severity.get(key) ?? 0, ['info', 'warning', 'error'].indexOf(name) + 1));
  }
  const worst = ({service, port}: PortTraffic): number =>
    severity.get(`${service.namespace}/${service.name} ${port.name} ${port.protocol}`) ?? 0;
  const odd = ({endpoints}: PortTraffic): number => Math.max(0, largest(endpoints.filter(getsSomething).map(rank)));
  const busy = ({totals}: PortTraffic): number => totals.newPerSecond ?? totals.totalConnections ?? -1;
  const name = ({service, port, family}: PortTraffic): string => `${service.namespace}/${service.name} ${port.name} ${port.port} ${family}`;
  return (a, b) => worst(b) - worst(a) || odd(b) - odd(a) || busy(b) - busy(a) || compareText(name(a), name(b));
}

/** The cells of one Service port on one node, by `ip:port`. */
type NodeCells = ReadonlyMap<string, CellTraffic>;

function portTotals(nodes: readonly NodeCells[], isRate: boolean): Omit<PortTotals, 'nodes'> {
  const all = nodes.flatMap(cells => [...cells.values()]);
  return {
    newPerSecond: sumOf(all, perSecond),
    totalConnections: sumOf(all, ({totalConnections}) => totalConnections),
    openConnections: sumOf(all, ({openConnections}) => openConnections),
    measuredNodes: nodes.filter(cells => [...cells.values()].some(cell => countOf(cell, isRate) !== null)).length,
  };
}

interface TotalsOptions {
  /** There were two reads. */
  readonly isRate: boolean;
  /** Each connection is assigned to an endpoint at random. */
  readonly isRandom: boolean;
}

function endpointTotals(name: string, nodes: readonly NodeCells[], {isRate, isRandom}: TotalsOptions): EndpointTotals {
  const own = nodes.flatMap(cells => cells.get(name) ?? []);
  const count = (cell: CellTraffic): number | null => countOf(cell, isRate);
  // A node that did not count this endpoint is left out of the total, too.
  const counted = nodes.filter(cells => cells.size > 0 && [...cells.values()].every(cell => count(cell) !== null));
  // A node that has nothing of this endpoint gives it no share: shares of all endpoints are of the same connections.
  const shareOn = (cells: NodeCells, key: 'expectedShare' | 'dueShare'): number | null =>
    cells.get(name)?.[key] ?? ([...cells.values()].some(cell => cell[key] !== null) ? 0 : null);
  const countsOf = (key: 'expectedShare' | 'dueShare'): readonly NodeCount[] =>
    counted.map(cells => ({
      all: [...cells.values()].reduce((sum, cell) => sum + (count(cell) ?? 0), 0),
      part: count(cells.get(name) ?? noCell) ?? 0,
      share: shareOn(cells, key),
    }));
  const weighted = (key: 'expectedShare' | 'dueShare'): number | null =>
    weightedShare(
      countsOf(key),
      nodes.map(cells => shareOn(cells, key)),
    );
  const perNode = countsOf('expectedShare');
  const all = perNode.reduce((sum, node) => sum + node.all, 0);
  const part = perNode.reduce((sum, node) => sum + node.part, 0);
  return {
    newPerSecond: sumOf(own, perSecond),
    totalConnections: sumOf(own, ({totalConnections}) => totalConnections),
    openConnections: sumOf(own, ({openConnections}) => openConnections),
    closingConnections: sumOf(own, ({closingConnections}) => closingConnections),
    share: all === 0 ? null : part / all,
    expectedShare: weighted('expectedShare'),
    dueShare: weighted('dueShare'),
    deviation: isRandom && isRate ? deviation(perNode) : null,
  };
}

interface NodeCount {
  readonly all: number;
  readonly part: number;
  readonly share: number | null;
}

/** Weighted by the counts of each node; without any counts, all nodes have the same weight. */
function weightedShare(counted: readonly NodeCount[], uncounted: readonly (number | null)[]): number | null {
  const known = counted.flatMap(({all, share}) => (share === null ? [] : [{weight: all, share}]));
  const weighed = known.some(({weight}) => weight > 0) ? known : uncounted.flatMap(share => (share === null ? [] : [{weight: 1, share}]));
  const weight = weighed.reduce((sum, node) => sum + node.weight, 0);
  return weight === 0 ? null : weighed.reduce((sum, node) => sum + node.weight * node.share, 0) / weight;
}

/** The standard deviation of a sum of binomial distributions, one for each node. */
function deviation(nodes: readonly NodeCount[]): number | null {
  let [difference, variance] = [0, 0];
  for (const {all, part, share} of nodes) {
    if (share === null) return null;
    difference += part - all * share;
    variance += all * share * (1 - share);
  }
  return variance === 0 ? (difference === 0 ? 0 : null) : difference / Math.sqrt(variance);
}

function countOf({newConnections, totalConnections}: CellTraffic, isRate: boolean): number | null {
  return isRate ? newConnections : totalConnections;
}

/** Null if none of them is known. */
function sumOf(cells: readonly CellTraffic[], value: (cell: CellTraffic) => number | null): number | null {
  const known = cells.map(value).filter(one => one !== null);
  return known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0);
}

const noCell: CellTraffic = {
  node: '',
  newConnections: null,
  seconds: null,
  totalConnections: null,
  openConnections: null,
  closingConnections: null,
  expectedShare: null,
  dueShare: null,
};
