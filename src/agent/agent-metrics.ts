import process from 'node:process';
import type {ClusterWatch} from '../collect/watch/cluster-watch.ts';
import type {Report} from '../model/report.ts';
import {metric, prometheus, sample} from '../render/ci/prometheus.ts';
import type {AgentState} from './agent.ts';
import type {EndpointCount} from './endpoint-connections.ts';
import {type ServingState, servingMetrics} from './serving-metrics.ts';
import {whyOutdated} from './outdated.ts';

interface MetricsInput {
  readonly state: AgentState;
  readonly watch: ClusterWatch;
  readonly serving: ServingState;
  readonly node: string;
  readonly intervalMs: number;
  readonly toolVersion: string;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** The findings of the node, named as in `check -o prometheus`, and the state of the agent itself. */
export function agentMetrics(input: MetricsInput): string {
  return `${[...nodeMetrics(input), ...checkMetrics(input), ...connectionMetrics(input), ...watchMetrics(input), ...servingMetrics(input.serving), ...processMetrics()].filter(text => text !== '').join('\n')}\n`;
}

function nodeMetrics({state, node, toolVersion, now}: MetricsInput): readonly string[] {
  const {report} = state;
  if (report === null)
    return [
      metric('svc_trace_node_checked', 'Whether the rules of a node were checked (1) or not (0).', [sample({node}, 0)]),
      metric('svc_trace_build_info', 'The version of svc-trace.', [sample({version: toolVersion}, 1)]),
    ];
  return [prometheus(whyOutdated(state, now) === null ? report : asUnread(report), plain)];
}

/** The findings are outdated. */
function asUnread(report: Report): Report {
  const nodes = report.nodes.map(node => ({...node, status: node.status === 'checked' ? ('unread' as const) : node.status}));
  return {...report, nodes, findings: [], summary: {...report.summary, verdict: 'incomplete', nodesChecked: 0, nodesUnread: nodes.length}};
}

const plain = {color: false, width: Infinity, quiet: false, verbose: false, failOn: 'error'} as const;

function checkMetrics({state: {result, checks, failedChecks}, intervalMs}: MetricsInput): readonly string[] {
  const ofResult = (value: number | undefined) => (value === undefined ? [] : [sample({}, value)]);
  const judgedAt = result === null ? undefined : result.judgedAt / 1000;
  return [
    metric(
      'svc_trace_agent_last_judged_timestamp_seconds',
      'When the reading of the node began that the findings are of.',
      ofResult(judgedAt),
    ),
    metric(
      'svc_trace_agent_judging_duration_seconds',
      'How long the latest check took, including repeated reads.',
      ofResult(result?.seconds),
    ),
    metric('svc_trace_agent_interval_seconds', 'How often the node is checked if nothing changes.', ofResult(intervalMs / 1000)),
    metric('svc_trace_agent_looks_total', 'Checks of the node.', ofResult(checks)),
    metric('svc_trace_agent_failed_looks_total', 'Checks that failed or could not read the node.', ofResult(failedChecks)),
  ];
}

/** Counters that kube-proxy resets, as a restart does: Prometheus knows this of counters. */
function connectionMetrics({state: {connections}, node}: MetricsInput): readonly string[] {
  if (connections === undefined) return [];
  const {counts, problem} = connections;
  const labelsOf = ({service, port, protocol, endpoint}: EndpointCount) => ({
    ...{node, namespace: service.namespace, service: service.name, port, protocol, endpoint},
  });
  return [
    metric('svc_trace_agent_connections_counted', 'Whether the connections of endpoints could be counted (1) or not (0).', [
      sample(problem === null ? {} : {reason: problem}, problem === null ? 1 : 0),
    ]),
    metric(
      'svc_trace_endpoint_connections_total',
      'New connections that the node gave to an endpoint since kube-proxy last wrote its rules.',
      counts.map(count => sample(labelsOf(count), count.connections)),
    ),
  ];
}

function watchMetrics({watch}: MetricsInput): readonly string[] {
  const each = (value: (one: ClusterWatch['watches'][number]) => number) => watch.watches.map(one => sample({kind: one.kind}, value(one)));
  const restarts = watch.watches.flatMap(({kind, restarts: by}) =>
    Object.entries(by).map(([reason, count]) => sample({kind, reason}, count)),
  );
  return [
    metric(
      'svc_trace_agent_objects',
      'API objects that are held.',
      each(({objects}) => objects.size),
    ),
    metric(
      'svc_trace_agent_lists_total',
      'How often all objects of a kind were read.',
      each(({lists}) => lists),
    ),
    metric('svc_trace_agent_watch_restarts_total', 'Restarts of watches, by reason.', restarts),
    metric(
      'svc_trace_agent_api_current_timestamp_seconds',
      'When the API server last gave a sign of life on a watch.',
      each(({currentAt}) => currentAt / 1000),
    ),
  ];
}

function processMetrics(): readonly string[] {
  const {user, system} = process.cpuUsage();
  return [
    metric('process_cpu_seconds_total', 'CPU time, user and system.', [sample({}, (user + system) / 1e6)]),
    metric('process_resident_memory_bytes', 'Memory in use.', [sample({}, process.memoryUsage.rss())]),
  ];
}
