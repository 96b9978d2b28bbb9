import parsePrometheus from 'parse-prometheus-text-format';
import {describe, expect, onTestFinished, test} from 'vitest';
import {type AgentState, agentMetrics} from '../../src/agent/run-agent.ts';
import {createKubeApi} from '../../src/collect/kube/create-kube-api.ts';
import {loadConnection} from '../../src/collect/kube/load-connection.ts';
import {ClusterWatch} from '../../src/collect/watch/cluster-watch.ts';
import {diagnose} from '../../src/diagnose.ts';
import type {AgentResult} from '../../src/model/node-result.ts';
import {snapshotOf} from '../fixtures.ts';

const none: AgentState = {result: null, report: null, trouble: 'not yet', checkedAt: 0, checks: 0, failedChecks: 0};

async function evaluated(): Promise<AgentState> {
  const snapshot = await snapshotOf('faults/missing-endpoint');
  const report = diagnose(
    {...snapshot, nodes: snapshot.nodes.filter(({name}) => name === 'node-a')},
    {toolVersion: '1.2.3', nodes: name => name === 'node-a'},
  );
  const result = {judgedAt: 100_000, seconds: 2.5, intervalSeconds: 60} as AgentResult;
  return {...none, result, report, trouble: null, checks: 7, failedChecks: 1};
}

interface Metric {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly metrics: readonly {readonly value: string; readonly labels?: Readonly<Record<string, string>>}[];
}

/** As after some requests. */
const serving = {
  answers: new Map([
    [401, 3],
    [200, 5],
  ]),
  reviews: {answered: 4, failed: 1},
  notAfter: 1_800_000_000_000,
};

function metricsOf(state: AgentState, now: number): ReadonlyMap<string, Metric> {
  const api = createKubeApi(loadConnection({server: 'https://127.0.0.1:1', token: 'x'}, {environment: {}}));
  onTestFinished(() => api.close());
  const text = agentMetrics({state, watch: new ClusterWatch(api), serving, node: 'node-a', intervalMs: 60_000, toolVersion: '1.2.3', now});
  expect(text.endsWith('\n')).toBe(true);
  const all = parsePrometheus(text) as readonly Metric[];
  expect(new Set(all.map(({name}) => name)).size).toBe(all.length);
  return new Map(all.map(metric => [metric.name, metric]));
}

describe('the metrics of an agent', () => {
  test('are those of `check` for the node, and those of the agent itself', async () => {
    const metrics = metricsOf(await evaluated(), 110_000);
    const only = (name: string) => metrics.get(name)?.metrics.map(({value}) => Number(value));
    expect(metrics.get('svc_trace_findings')?.metrics.map(({labels}) => labels?.['code'])).toContain('ST202');
    expect(metrics.get('svc_trace_node_checked')?.metrics).toEqual([
      {value: '1', labels: expect.objectContaining({node: 'node-a', mode: 'iptables'})},
    ]);
    expect(only('svc_trace_agent_last_judged_timestamp_seconds')).toEqual([100]);
    expect(only('svc_trace_agent_judging_duration_seconds')).toEqual([2.5]);
    expect(only('svc_trace_agent_interval_seconds')).toEqual([60]);
    expect(only('svc_trace_agent_looks_total')).toEqual([7]);
    expect(only('svc_trace_agent_failed_looks_total')).toEqual([1]);
    expect(metrics.get('svc_trace_agent_requests_total')?.metrics).toEqual([
      {value: '5', labels: {code: '200'}},
      {value: '3', labels: {code: '401'}},
    ]);
    expect(metrics.get('svc_trace_agent_token_reviews_total')?.metrics).toEqual([
      {value: '4', labels: {result: 'answered'}},
      {value: '1', labels: {result: 'failed'}},
    ]);
    expect(only('svc_trace_agent_certificate_expiry_timestamp_seconds')).toEqual([1_800_000_000]);
    expect(metrics.get('svc_trace_agent_watch_restarts_total')?.type).toBe('COUNTER');
    expect(metrics.get('svc_trace_agent_watch_restarts_total')?.metrics).toHaveLength(6);
  });

  test('contain the connections of endpoints only if the agent counts them', async () => {
    const state = await evaluated();
    expect([...metricsOf(state, 110_000).keys()].filter(name => name.includes('connections'))).toEqual([]);
    const count = {service: {namespace: 'shop', name: 'web'}, port: 'http', protocol: 'TCP', endpoint: '10.244.11.4:8080', connections: 42};
    const metrics = metricsOf({...state, connections: {counts: [count], problem: null}}, 110_000);
    expect(metrics.get('svc_trace_endpoint_connections_total')).toMatchObject({
      type: 'COUNTER',
      metrics: [
        {
          value: '42',
          labels: {node: 'node-a', namespace: 'shop', service: 'web', port: 'http', protocol: 'TCP', endpoint: '10.244.11.4:8080'},
        },
      ],
    });
    expect(metrics.get('svc_trace_agent_connections_counted')?.metrics).toMatchObject([{value: '1'}]);
    const failed = metricsOf({...state, connections: {counts: [], problem: 'no answer within 5 s'}}, 110_000);
    expect(failed.get('svc_trace_agent_connections_counted')?.metrics).toEqual([{value: '0', labels: {reason: 'no answer within 5 s'}}]);
    expect(failed.has('svc_trace_endpoint_connections_total')).toBe(false);
  });

  test('report the node as not checked before its first check', () => {
    const metrics = metricsOf(none, 0);
    expect(metrics.get('svc_trace_node_checked')?.metrics).toEqual([{value: '0', labels: {node: 'node-a'}}]);
    expect(metrics.get('svc_trace_build_info')?.metrics).toEqual([{value: '1', labels: {version: '1.2.3'}}]);
    expect(metrics.has('svc_trace_findings')).toBe(false);
    expect(metrics.has('svc_trace_agent_last_judged_timestamp_seconds')).toBe(false);
  });

  test('report the node as not checked when the result is outdated, and then contain no findings', async () => {
    const metrics = metricsOf(await evaluated(), 100_000 + 248_000);
    expect(metrics.get('svc_trace_node_checked')?.metrics).toEqual([{value: '0', labels: expect.objectContaining({node: 'node-a'})}]);
    expect(metrics.get('svc_trace_complete')?.metrics).toEqual([{value: '0'}]);
    expect(metrics.has('svc_trace_findings')).toBe(false);
  });
});
