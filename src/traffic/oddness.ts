import {compareText} from '../model/text/compare-text.ts';
import type {Finding} from '../model/finding.ts';
import type {EndpointTraffic, PortTraffic} from '../model/traffic/traffic-report.ts';

/** Endpoints, conspicuous ones first: stale ones, terminating ones, those with another share than their rules give them. */
export function byOddness(a: EndpointTraffic, b: EndpointTraffic): number {
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
export function byPortOddness(findings: readonly Finding[]): (a: PortTraffic, b: PortTraffic) => number {
  const severity = new Map<string, number>();
  for (const {service, port, severity: name} of findings) {
    const key = `${service?.namespace}/${service?.name} ${port?.name} ${port?.protocol}`;
    severity.set(key, Math.max(severity.get(key) ?? 0, ['info', 'warning', 'error'].indexOf(name) + 1));
  }
  const worst = ({service, port}: PortTraffic): number =>
    severity.get(`${service.namespace}/${service.name} ${port.name} ${port.protocol}`) ?? 0;
  const odd = ({endpoints}: PortTraffic): number => Math.max(0, ...endpoints.filter(getsSomething).map(rank));
  const busy = ({totals}: PortTraffic): number => totals.newPerSecond ?? totals.totalConnections ?? -1;
  const name = ({service, port, family}: PortTraffic): string => `${service.namespace}/${service.name} ${port.name} ${port.port} ${family}`;
  return (a, b) => worst(b) - worst(a) || odd(b) - odd(a) || busy(b) - busy(a) || compareText(name(a), name(b));
}
