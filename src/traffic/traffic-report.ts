import {podOf} from '../model/endpoint.ts';
import type {CellTraffic, EndpointTraffic, PortTraffic, TrafficReport, TrafficSource} from '../model/traffic/traffic-report.ts';
import {pushTo} from '../model/lists.ts';
import {sortFindings} from '../diagnosis/sort-findings.ts';
import {byOddness, byPortOddness} from './oddness.ts';
import type {MeasuredNode} from './measured-node.ts';
import {measurePort, type MeasuredPort} from './measure-port.ts';
import type {NodeSample} from './node-sample.ts';
import type {NodeSurvey, SurveyedPort} from './node-survey.ts';
import {endpointTotals, portTotals} from './totals.ts';
import {trafficFindings} from './traffic-findings.ts';

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
  const seconds = measured.flatMap(({read}) => (read === null || read.before === null ? [] : [(read.after.at - read.before.at) / 1000]));
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
    return {survey, read: null, ports: new Map(), node: {name, status, reason, ...proxyMode, sources: []}};
  }
  const read = {before, after};
  const ports = new Map(survey.ports.map(port => [port.key, measurePort(survey, port, read)]));
  const reason = isRate && before === null ? firstFailed : reasonOf(survey, ports, after);
  const status = reason === null ? 'measured' : 'partial';
  return {survey, read, ports, node: {name, status, ...(reason === null ? {} : {reason}), ...proxyMode, sources: sourcesOf(survey, after)}};
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
  return [...new Map(all.map(port => [port.key, port])).values()];
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
    family: port.family,
    service: {namespace: port.namespace, name: port.service},
    port: {name: port.portName, protocol: port.protocol, port: port.port},
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
  return nodes.some(({expectedShare}) => (expectedShare ?? 0) > 0);
}
