import type {CellTraffic, EndpointTraffic, TrafficReport} from '../../model/traffic/traffic-report.ts';
import {findingObject, schemaVersion, toJson} from '../json.ts';

/** The JSON of `top`, as docs/top.schema.json describes it. */
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
      ...(rateError === null ? {} : {rateError: rounded(rateError)}),
    })),
  };
}

function endpointObject({hostPort, pod, podNode, state, nodes}: EndpointTraffic): object {
  return {
    endpoint: hostPort,
    ...(pod === null ? {} : {pod}),
    ...(podNode === null ? {} : {podNode}),
    state,
    nodes: nodes.map(cellObject),
  };
}

function cellObject({
  node,
  newConnections,
  seconds,
  totalConnections,
  openConnections,
  closingConnections,
  expectedShare,
  dueShare,
}: CellTraffic): object {
  const perSecond = newConnections === null || seconds === null || seconds <= 0 ? null : rounded(newConnections / seconds);
  return {
    node,
    newConnections: perSecond,
    openConnections,
    closingConnections,
    totalConnections,
    expectedShare: expectedShare === null ? null : Number(expectedShare.toFixed(9)),
    dueShare: dueShare === null ? null : Number(dueShare.toFixed(9)),
  };
}

function rounded(value: number): number {
  return Number(value.toFixed(3));
}
