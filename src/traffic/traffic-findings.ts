import type {TrafficContext} from '../checks/traffic-context.ts';
import {checks} from '../checks/index.ts';
import {ofPort} from '../checks/service-observation.ts';
import {staleConntrack} from '../checks/st508-stale-conntrack.ts';
import {toFinding} from '../diagnosis/to-finding.ts';
import type {Finding} from '../model/finding.ts';
import type {Reads} from './measure-port.ts';
import type {MeasuredNode} from './measured-node.ts';
import type {SurveyedPort} from './node-survey.ts';

/** The findings about the counters of each node. */
export function trafficFindings(nodes: readonly MeasuredNode[]): readonly Finding[] {
  return nodes.flatMap(({survey, read, ports}) =>
    survey.ports.flatMap(surveyed => {
      const cells = ports.get(surveyed.key)?.cells;
      if (cells === undefined || read === null) return [];
      const clients = read.after.connections?.ports.get(surveyed.key)?.clients ?? null;
      const context = {node: survey.name, entry: surveyed, cells, clients, isRandom: surveyed.isRandom};
      const found = checks.flatMap(check => [...(check.traffic?.(context) ?? [])].map(observation => toFinding(check, observation)));
      return [...found, ...staleFlows(context, surveyed, read)];
    }),
  );
}

/** kube-proxy deletes the flows of a removed endpoint soon after: a single read may show them just before. */
function staleFlows({node, cells}: TrafficContext, {port, set, key}: SurveyedPort, {before}: Reads): readonly Finding[] {
  if (port.protocol !== 'UDP' || set.endpoints.length === 0) return [];
  const old = before?.connections?.ports.get(key)?.endpoints;
  return [...cells].flatMap(([hostPort, {openConnections}]) => {
    const isEndpoint = set.endpoints.some(endpoint => endpoint.hostPort === hostPort);
    if (!openConnections || isEndpoint || (old !== undefined && !old.get(hostPort)?.open)) return [];
    const flows = openConnections === 1 ? '1 tracked UDP flow leads' : `${openConnections} tracked UDP flows lead`;
    const message = `${port.servicePortName}: ${flows} to ${hostPort}, no endpoint of the Service`;
    return [toFinding(staleConntrack, {...ofPort(port), node, endpoint: hostPort, message})];
  });
}
