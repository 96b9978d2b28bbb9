import {spawnSync} from 'node:child_process';
import parse from 'parse-prometheus-text-format';
import {describe, expect, test} from 'vitest';
import {prometheus} from '../../../src/render/ci/prometheus.ts';
import {describeWith} from '../../require.ts';
import {loud, reports} from '../real-reports.ts';
import {findingOf, plain, reportOf, unreadNode} from '../report.ts';

interface Metric {
  readonly name: string;
  readonly type: string;
  readonly metrics: readonly {readonly value: string; readonly labels?: Readonly<Record<string, string>>}[];
}

function metric(text: string, name: string): Metric['metrics'] {
  const all = parse(`${text}\n`) as readonly Metric[];
  const found = all.find(one => one.name === name);
  expect(found?.type).toBe('GAUGE');
  return found?.metrics ?? [];
}

describe.each(Object.entries(reports))('a report: %s', (_, make) => {
  test('is read by a parser of the text format, each sample once, with a finite number', async () => {
    const report = await make();
    const text = prometheus(report, loud);
    const all = parse(`${text}\n`) as readonly Metric[];
    expect(all.map(({name}) => name)).toEqual([...text.matchAll(/^# TYPE (\S+) gauge$/gm)].map(([, name]) => name));
    for (const {name, metrics} of all) {
      expect(name).toMatch(/^svc_trace_[a-z_]+$/);
      expect(new Set(metrics.map(({labels = {}}) => JSON.stringify(labels))).size).toBe(metrics.length);
      for (const {value} of metrics) expect(Number.isFinite(Number(value))).toBe(true);
    }
    const counted = all.find(({name}) => name === 'svc_trace_findings')?.metrics ?? [];
    expect(counted.reduce((sum, {value}) => sum + Number(value), 0)).toBe(report.findings.filter(({known}) => !known).length);
  });
});

describeWith(['promtool'], 'by promtool', () => {
  test.each(Object.entries(reports))('a report is well-formed, and its metrics follow the naming conventions: %s', async (_, make) => {
    const input = `${prometheus(await make(), loud)}\n`;
    expect(spawnSync('promtool', ['check', 'metrics'], {input, encoding: 'utf8'})).toMatchObject({status: 0, stdout: '', stderr: ''});
  });

  test('the parser rejects invalid metrics', () => {
    expect(spawnSync('promtool', ['check', 'metrics'], {input: 'svc_trace{node="a} 1\n'}).status).not.toBe(0);
  });
});

test('a run that waited contains the time of each node', async () => {
  const text = prometheus((await reports['waited for']?.()) ?? reportOf({nodes: [], services: []}), plain);
  expect(metric(text, 'svc_trace_converged')).toEqual([{value: '0'}]);
  expect(metric(text, 'svc_trace_node_converged_seconds')).toEqual([{value: '3.25', labels: {node: 'node-a'}}]);
});

test('findings are counted by code, node and Service, without known ones', () => {
  const one = findingOf('node-a', 'shop/web');
  const text = prometheus(reportOf({nodes: ['node-a'], services: ['shop/web'], findings: [one, one, {...one, known: true}]}), plain);
  expect(metric(text, 'svc_trace_findings')).toEqual([
    {
      value: '2',
      labels: {code: 'ST202', name: 'missing-endpoint', severity: 'error', node: 'node-a', namespace: 'shop', service: 'web'},
    },
  ]);
});

test('a node that was not read has the value 0, and the report is incomplete', () => {
  const text = prometheus(reportOf({nodes: ['node-a', unreadNode('node-b', 'gone')], services: []}), plain);
  expect(metric(text, 'svc_trace_node_checked').map(({value, labels}) => [labels?.['node'], value])).toEqual([
    ['node-a', '1'],
    ['node-b', '0'],
  ]);
  expect(metric(text, 'svc_trace_complete')).toEqual([{value: '0'}]);
});

test('quotes, backslashes and newlines in a label are escaped', () => {
  const text = prometheus(reportOf({nodes: ['a"b\\c\nd'], services: []}), plain);
  expect(text).toContain('svc_trace_rules{node="a\\"b\\\\c\\\\x0ad"} 1');
});
