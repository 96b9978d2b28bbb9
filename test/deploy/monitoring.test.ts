import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execa} from 'execa';
import {dump, load} from 'js-yaml';
import {beforeAll, describe, expect, test} from 'vitest';
import {prometheus} from '../../src/render/ci/prometheus.ts';
import {prometheusRuleFile, prometheusRuleText, rulesFile} from '../../tools/prometheus-rule-text.ts';
import {diagnosed} from '../diagnosed.ts';
import {captureNames, capturePath, snapshotOf} from '../fixtures.ts';
import {plain} from '../render/report.ts';
import {describeWith} from '../require.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import {startAgent} from './agent-run.ts';
import {deployFolder} from './overlays.ts';
import {typeErrors} from './schema.ts';

interface AlertRule {
  readonly alert: string;
  readonly expr: string;
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: {readonly x: number; readonly y: number; readonly w: number; readonly h: number};
  readonly targets?: readonly {readonly expr: string; readonly refId: string; readonly datasource: object}[];
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: {readonly list: readonly {readonly name: string; readonly query: string | {readonly query: string}}[]};
}

const testFile = join(import.meta.dirname, 'alerts.yaml');
const {groups} = load(readFileSync(rulesFile, 'utf8')) as {readonly groups: readonly {readonly rules: readonly AlertRule[]}[]};
const alerts = groups.flatMap(({rules}) => rules);
const dashboard = JSON.parse(readFileSync(join(deployFolder, 'components/grafana/svc-trace.json'), 'utf8')) as Dashboard;
const targets = dashboard.panels.flatMap(({targets: own = []}) => own);

/** Metrics of Prometheus and kube-state-metrics, not of svc-trace. */
const fromElsewhere = ['up', 'kube_daemonset_status_desired_number_scheduled', 'kube_daemonset_status_number_ready'];

/** The names of metrics in an expression: what is neither a function, nor a keyword, a label or a string. */
function metricsOf(expr: string): readonly string[] {
  const bare = expr
    .replaceAll(/"[^"]*"/g, '')
    .replaceAll(/\{[^}]*\}|\[[^\]]*\]/g, '')
    .replaceAll(/\b(?:by|on|without|ignoring)\s*\([^)]*\)/g, '');
  return [...bare.matchAll(/[a-z_]\w*(?!\w*\s*\()/g)].map(([name]) => name).filter(name => name.includes('_') || name === 'up');
}

/** The names of all metrics that text in Prometheus' format has samples of. */
function namesIn(text: string): readonly string[] {
  return [...text.matchAll(/^([a-z_]\w*)[{ ]/gm)].flatMap(([, name = '']) => name);
}

/** What an agent answers to Prometheus, of a node with a fault. */
let agentText = '';

beforeAll(async () => {
  const bundle = capturePath('faults/missing-endpoint');
  await using cluster = await startBundleCluster(bundle);
  const args = ['agent', '--listen', '127.0.0.1:0', '--interval', '1s'];
  await using agent = await startAgent({bundle, node: 'node-a', kubeconfig: cluster.kubeconfig, args});
  agentText = (await agent.page('/metrics')).text;
});

async function printed(): Promise<ReadonlySet<string>> {
  const reports = await Promise.all(captureNames('faults').map(async name => diagnosed(await snapshotOf(name))));
  return new Set([...reports.map(report => prometheus(report, plain)), agentText].flatMap(namesIn));
}

describe('the alerts', () => {
  test('are the same as an object of the Prometheus operator', () => {
    expect(readFileSync(prometheusRuleFile, 'utf8')).toBe(prometheusRuleText());
    const {spec} = load(prometheusRuleText()) as {readonly spec: {readonly groups: unknown}};
    expect(spec.groups).toEqual(groups);
  });

  test('use existing metrics', async () => {
    const there = await printed();
    for (const {alert, expr} of alerts) {
      const asked = metricsOf(expr).filter(name => !fromElsewhere.includes(name));
      expect(
        asked.filter(name => !there.has(name)),
        alert,
      ).toEqual([]);
      expect(metricsOf(expr).length, alert).toBeGreaterThan(0);
    }
  });

  test('each have a test in which they fire and one in which they stay silent', () => {
    const {tests} = load(readFileSync(testFile, 'utf8')) as {
      readonly tests: readonly {
        readonly alert_rule_test: readonly {readonly alertname: string; readonly exp_alerts: readonly unknown[]}[];
      }[];
    };
    const all = tests.flatMap(({alert_rule_test}) => alert_rule_test);
    for (const {alert} of alerts) {
      const own = all.filter(({alertname}) => alertname === alert);
      expect(new Set(own.map(({exp_alerts}) => exp_alerts.length > 0)), alert).toEqual(new Set([true, false]));
    }
  });
});

describe('the dashboard', () => {
  test('matches the schema of Grafana', async () => {
    expect(await typeErrors([{name: 'dashboard', from: '@grafana/schema', type: 'Dashboard', object: dashboard, isJson: true}])).toEqual(
      [],
    );
  });

  test('uses existing metrics', async () => {
    const there = await printed();
    const variables = dashboard.templating.list.flatMap(({query}) => (typeof query === 'string' ? [] : [query.query]));
    const asked = [...targets.map(({expr}) => expr), ...variables.map(query => query.replace(/^label_values\((\w+), \w+\)$/, '$1'))];
    expect(asked.flatMap(metricsOf).filter(name => !there.has(name))).toEqual([]);
    expect(new Set(asked.flatMap(metricsOf)).size).toBeGreaterThan(10);
  });

  test('defines the variables of its queries', () => {
    const known = new Set(['__rate_interval', ...dashboard.templating.list.map(({name}) => name)]);
    const named = [...JSON.stringify(dashboard.panels).matchAll(/\$\{?(\w+)/g)].map(([, name = '']) => name);
    expect(named.filter(name => !known.has(name))).toEqual([]);
  });

  test('has panels with titles that do not overlap', () => {
    const {panels} = dashboard;
    expect(new Set(panels.map(({id}) => id)).size).toBe(panels.length);
    for (const {type, title, description} of panels) expect(type === 'row' || (description ?? '').length > 5, title).toBe(true);
    const cells = panels.flatMap(({gridPos: {x, y, w, h}}) =>
      Array.from({length: w * h}, (_, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(Math.max(...panels.map(({gridPos: {x, w}}) => x + w))).toBe(24);
  });
});

describeWith(['promtool'], 'by promtool', () => {
  test('promtool accepts the rules, and their tests pass', async () => {
    expect((await execa('promtool', ['check', 'rules', rulesFile])).stdout).toContain(`SUCCESS: ${alerts.length} rules found`);
    expect((await execa('promtool', ['test', 'rules', testFile])).stdout).toContain('SUCCESS');
  });

  test('the queries of the dashboard are valid PromQL', async () => {
    const exprs = targets.map(({expr}) => expr.replaceAll('$__rate_interval', '5m').replaceAll(/\$\w+/g, '.*'));
    const rules = exprs.map((expr, index) => ({record: `query:${index}`, expr}));
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-promtool-'));
    try {
      const file = join(folder, 'rules.yaml');
      writeFileSync(file, dump({groups: [{name: 'dashboard', rules}]}));
      expect((await execa('promtool', ['check', 'rules', file])).stdout).toContain(`SUCCESS: ${rules.length} rules found`);
    } finally {
      rmSync(folder, {recursive: true});
    }
  });

  test.each(captureNames('faults', 'nftables', 'ipvs'))('the metrics of a check are accepted: %s', async name => {
    const text = prometheus(diagnosed(await snapshotOf(name)), plain);
    expect(await execa('promtool', ['check', 'metrics'], {input: `${text}\n`})).toMatchObject({stdout: '', stderr: ''});
  });

  test('the metrics of an agent are accepted', async () => {
    expect(await execa('promtool', ['check', 'metrics'], {input: agentText})).toMatchObject({stdout: '', stderr: ''});
  });
});
