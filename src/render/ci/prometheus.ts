import type {Report} from '../../model/report.ts';
import {escapeText, type Renderer} from '../renderer.ts';
import {outdatedNodes} from '../headline.ts';

/** Prometheus' text format: findings by code, node and Service, and what was checked. All are gauges of one run. */
export const prometheus: Renderer = report =>
  [
    metric('svc_trace_findings', 'Findings by code, node and Service that the baseline does not suppress.', findings(report)),
    metric('svc_trace_node_checked', 'Whether the rules of a node were checked (1) or not (0).', nodes(report)),
    metric('svc_trace_node_outdated', 'Whether the rules of a node are older than the API (1) or not (0).', outdated(report)),
    metric('svc_trace_rules', 'Rules found on a node.', rules(report)),
    metric('svc_trace_services', 'Services in scope.', [sample({}, report.summary.services)]),
    metric('svc_trace_service_ports', 'Service ports in scope that kube-proxy serves.', [sample({}, report.summary.servicePorts)]),
    metric('svc_trace_complete', 'Whether everything requested could be read (1) or not (0).', [sample({}, isComplete(report) ? 1 : 0)]),
    ...waitMetrics(report),
    metric('svc_trace_build_info', 'The version of svc-trace.', [sample({version: report.tool.version}, 1)]),
  ]
    .filter(text => text !== '')
    .join('\n');

interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export function sample(labels: Sample['labels'], value: number): Sample {
  return {labels, value};
}

/** One metric with all its samples; empty without samples. Metrics whose names end in _total are counters. */
export function metric(name: string, help: string, samples: readonly Sample[]): string {
  if (samples.length === 0) return '';
  const type = name.endsWith('_total') ? 'counter' : 'gauge';
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...samples.map(one => `${name}${labelText(one)} ${one.value}`)].join('\n');
}

function labelText({labels}: Sample): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

/** A label value can be any text, with these characters escaped. */
function escapeLabel(value: string): string {
  return escapeText(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"');
}

function findings(report: Report): readonly Sample[] {
  const samples = new Map<string, {labels: Sample['labels']; value: number}>();
  for (const {code, name, severity, known, node = '', service} of report.findings) {
    if (known) continue;
    const labels = {code, name, severity, node, namespace: service?.namespace ?? '', service: service?.name ?? ''};
    const key = JSON.stringify(labels);
    const before = samples.get(key);
    if (before === undefined) samples.set(key, {labels, value: 1});
    else before.value++;
  }
  return [...samples.values()];
}

/** Nodes without kube-proxy are left out. */
function nodes(report: Report): readonly Sample[] {
  return report.nodes
    .filter(({status}) => status !== 'unsupported')
    .map(({name, status, proxyMode = '', kubeProxyVersion = ''}) =>
      sample({node: name, mode: proxyMode, version: kubeProxyVersion}, status === 'checked' ? 1 : 0),
    );
}

function outdated(report: Report): readonly Sample[] {
  const older = outdatedNodes(report);
  return report.nodes.filter(({status}) => status === 'checked').map(({name}) => sample({node: name}, older.has(name) ? 1 : 0));
}

function rules(report: Report): readonly Sample[] {
  return report.nodes.filter(({status}) => status === 'checked').map(({name, rules: held}) => sample({node: name}, held));
}

/** For a run that waited. */
function waitMetrics({wait}: Report): readonly string[] {
  if (wait === undefined) return [];
  const {clean, nodes: waits} = wait;
  const converged = waits.flatMap(({name, seconds}) => (seconds === undefined ? [] : [sample({node: name}, seconds)]));
  return [
    metric('svc_trace_converged', 'Whether all nodes had converged when the wait ended (1) or not (0).', [sample({}, clean ? 1 : 0)]),
    metric('svc_trace_node_converged_seconds', 'How long a node took to converge; no sample for nodes that have not.', converged),
  ];
}

function isComplete({summary}: Report): boolean {
  return summary.verdict !== 'incomplete' && summary.nodesUnread === 0;
}
