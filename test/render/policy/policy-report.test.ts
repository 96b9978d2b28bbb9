import {Ajv2020, type ValidateFunction} from 'ajv/dist/2020.js';
import {loadAll} from 'js-yaml';
import {describe, expect, test} from 'vitest';
import type {Report} from '../../../src/model/report.ts';
import {openreports, policyreport} from '../../../src/render/policy/policy-report.ts';
import type {RenderOptions} from '../../../src/render/renderer.ts';
import {diagnosed} from '../../diagnosed.ts';
import {someOf} from '../../cases.ts';
import {captureNames, readFixture, snapshotOf} from '../../fixtures.ts';
import {findingOf, hostile, numbered, plain, reportOf, ruleOf, unreadNode} from '../report.ts';

interface PolicyResult {
  readonly policy: string;
  readonly rule: string;
  readonly result: 'pass' | 'fail' | 'warn' | 'error' | 'skip';
  readonly message: string;
  readonly resources?: readonly [{readonly name: string}];
  readonly properties?: Readonly<Record<string, string>>;
}

interface PolicyReport {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {readonly name: string; readonly namespace?: string};
  readonly scope?: object;
  readonly summary: Readonly<Record<string, number>>;
  readonly results: readonly PolicyResult[];
}

const formats = {openreports, policyreport};

/** As the API server does in its strict validation: fields that the schema does not name are refused. */
const ajv = new Ajv2020({allErrors: true, formats: {int32: true, int64: true}});
const validate: Readonly<Record<keyof typeof formats, ValidateFunction>> = {
  openreports: ajv.compile(schemaOf('openreports.io-v1alpha1')),
  policyreport: ajv.compile(schemaOf('wgpolicyk8s.io-v1alpha2')),
};

function schemaOf(name: string): object {
  return closed(JSON.parse(readFixture(`schemas/${name}.json`).toString())) as object;
}

function closed(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(closed);
  if (typeof part !== 'object' || part === null) return part;
  const inner = Object.fromEntries(Object.entries(part).map(([name, value]) => [name, closed(value)]));
  return inner['type'] === 'object' && !('additionalProperties' in inner) ? {...inner, additionalProperties: false} : inner;
}

function objectsOf(report: Report, options: Partial<RenderOptions> = {}): readonly PolicyReport[] {
  return loadAll(openreports(report, {...plain, ...options})) as readonly PolicyReport[];
}

/** The results of the cluster, or of a namespace. */
function resultsOf(report: Report, namespace?: string, options: Partial<RenderOptions> = {}): readonly PolicyResult[] {
  return objectsOf(report, options).find(({metadata}) => metadata.namespace === namespace)?.results ?? [];
}

function outcomes(results: readonly PolicyResult[]): readonly string[] {
  return results.map(({result, policy, rule, resources}) => `${result} ${policy} ${rule} ${resources?.[0].name ?? ''}`.trim());
}

describe.each(Object.entries(formats))('%s', (name, render) => {
  test.each(someOf(captureNames('healthy', 'faults', 'ipvs', 'nftables')))(
    'is what the API takes, with counts that are right: %s',
    async capture => {
      const report = diagnosed(await snapshotOf(capture));
      const objects = loadAll(render(report, {...plain, verbose: true, unixTime: 1_800_000_000.7})) as readonly PolicyReport[];
      expect(objects.length).toBeGreaterThan(1);
      for (const object of objects) {
        expect(validate[name as keyof typeof formats](object), JSON.stringify(validate[name as keyof typeof formats].errors)).toBe(true);
        const counted = {pass: 0, fail: 0, warn: 0, error: 0, skip: 0};
        for (const {result} of object.results) counted[result]++;
        expect(object.summary).toEqual(counted);
      }
    },
  );

  test('one object of the cluster comes first, then one for each namespace, all with one name', () => {
    const report = reportOf({nodes: ['node-a'], services: ['shop/web', 'infra/dns', 'shop/api']});
    const objects = loadAll(render(report, plain)) as readonly PolicyReport[];
    expect(objects.map(({kind, metadata}) => [kind, metadata.namespace ?? '', metadata.name])).toEqual([
      [name === 'openreports' ? 'ClusterReport' : 'ClusterPolicyReport', '', 'svc-trace'],
      [name === 'openreports' ? 'Report' : 'PolicyReport', 'infra', 'svc-trace'],
      [name === 'openreports' ? 'Report' : 'PolicyReport', 'shop', 'svc-trace'],
    ]);
  });

  test.each(Object.entries(hostile))('no escape sequence is left in the text: %s', (_, text) => {
    const finding = findingOf(text, `shop/${text}`, {actual: [ruleOf(text)], endpoint: text});
    const rendered = render(reportOf({nodes: [text], services: [`shop/${text}`], findings: [finding]}), plain);
    expect(rendered).not.toContain(text);
    expect(loadAll(rendered)).toHaveLength(2);
  });
});

describe('a fault of a Service', () => {
  const finding = findingOf('node-a', 'shop/web', {
    ...{family: 'IPv4', endpoint: '10.0.0.1:80', port: {name: 'http', protocol: 'TCP', port: 80}},
    entry: {kind: 'clusterIP', address: '10.96.0.1', port: 80},
    ...{expected: [ruleOf('-A KUBE-SERVICES -j Y')], actual: [ruleOf('-A KUBE-SERVICES -j X', 7)]},
  });

  test('is a failed result of the namespace, with the Service as its resource and all details', () => {
    const report = reportOf({nodes: ['node-a'], services: ['shop/web'], findings: [finding]});
    expect(resultsOf(report, 'shop', {unixTime: 1_800_000_000.7})).toEqual([
      {
        ...{policy: 'ST202', rule: 'missing-endpoint', category: 'Service rules', source: 'svc-trace'},
        ...{result: 'fail', severity: 'high', scored: true, message: 'shop/web is missing an endpoint'},
        resources: [{apiVersion: 'v1', kind: 'Service', namespace: 'shop', name: 'web'}],
        properties: {
          ...{nodes: 'node-a', family: 'IPv4', port: 'http 80/TCP', entry: 'cluster IP 10.96.0.1:80', endpoint: '10.0.0.1:80'},
          ...{expected: 'nat -A KUBE-SERVICES -j Y', found: 'line 7: nat -A KUBE-SERVICES -j X', remedy: 'Restart kube-proxy.'},
          docs: 'https://github.com/svc-trace/svc-trace/blob/main/docs/checks/ST202.md',
        },
        timestamp: {seconds: 1_800_000_000, nanos: 0},
      },
    ]);
  });

  test('with severity warning is a warning that is not scored', () => {
    const report = reportOf({nodes: ['node-a'], services: ['shop/web'], findings: [{...finding, code: 'ST208', severity: 'warning'}]});
    expect(resultsOf(report, 'shop')).toMatchObject([{result: 'warn', severity: 'medium', scored: false}]);
  });

  test('in the baseline is skipped, and does not make the Service pass', () => {
    const report = reportOf({nodes: ['node-a'], services: ['shop/web'], findings: [{...finding, known: true}]});
    expect(resultsOf(report, 'shop')).toMatchObject([{policy: 'ST202', result: 'skip', properties: {known: 'in the baseline'}}]);
  });

  test('on many nodes is one result that names some of them', () => {
    const nodes = numbered('node', 300);
    const findings = nodes.map(node => ({...finding, node, message: `${node} does not have it`}));
    const [result, ...others] = resultsOf(reportOf({nodes, services: ['shop/web'], findings}), 'shop');
    expect(others).toEqual([]);
    expect(result?.message).toBe('node-001 does not have it (and on 299 more nodes)');
    expect(result?.properties?.['nodes']).toBe('node-[001-300]');
  });

  test('of a deleted Service, namespace and all, is in the object of the cluster', () => {
    const gone = findingOf('node-a', 'old/shop', {code: 'ST205', name: 'stale-service'});
    const report = reportOf({nodes: ['node-a'], services: ['shop/web'], findings: [gone]});
    expect(outcomes(resultsOf(report))).toEqual(['fail ST205 stale-service shop', 'pass svc-trace node-read node-a']);
    expect(objectsOf(report)).toHaveLength(2);
  });
});

describe('a check without findings', () => {
  test('is a pass for each Service and each node, so that resolved findings turn green', () => {
    const report = reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web', 'shop/api']});
    expect(outcomes(resultsOf(report, 'shop'))).toEqual(['pass svc-trace service-programmed web', 'pass svc-trace service-programmed api']);
    expect(outcomes(resultsOf(report))).toEqual(['pass svc-trace node-read node-a', 'pass svc-trace node-read node-b']);
  });

  test('has the same text however many nodes there are', () => {
    const text = (count: number) => resultsOf(reportOf({nodes: numbered('node', count), services: ['shop/web']}), 'shop');
    expect(text(3)).toEqual(text(300));
  });

  test('reports that only a sample was checked', () => {
    const report = reportOf({nodes: ['node-a'], services: ['shop/web']});
    const sampled = {...report, summary: {...report.summary, sampledFrom: 300}};
    expect(resultsOf(sampled, 'shop')).toMatchObject([{result: 'pass', message: 'in sync on every node of a sample'}]);
  });

  test('shows harmless findings with --verbose, as passed', () => {
    const harmless = findingOf('node-a', 'shop/web', {code: 'ST216', name: 'unexpected-rule', severity: 'info'});
    const report = reportOf({nodes: ['node-a'], services: ['shop/web'], findings: [harmless]});
    expect(outcomes(resultsOf(report, 'shop'))).toEqual(['pass svc-trace service-programmed web']);
    expect(outcomes(resultsOf(report, 'shop', {verbose: true}))).toEqual([
      'pass ST216 unexpected-rule web',
      'pass svc-trace service-programmed web',
    ]);
  });
});

describe('unknown results never pass', () => {
  test('an unread node is an error, and no Service is certain to be in sync', () => {
    const unread = findingOf('node-b', null, {code: 'ST901', name: 'node-not-read', severity: 'warning'});
    const report = reportOf({nodes: ['node-a', unreadNode('node-b', 'gone')], services: ['shop/web'], findings: [unread]});
    expect(outcomes(resultsOf(report))).toEqual(['error ST901 node-not-read node-b', 'pass svc-trace node-read node-a']);
    expect(resultsOf(report, 'shop')).toMatchObject([
      {result: 'skip', message: 'no findings for this Service alone, but 1 node not checked'},
    ]);
  });

  test('an unread node is an error also if its finding was excluded', () => {
    const report = reportOf({nodes: [unreadNode('node-b', 'gone')], services: []});
    expect(resultsOf(report)).toMatchObject([{policy: 'svc-trace', rule: 'node-read', result: 'error', message: 'gone'}]);
  });

  test('a Service on a node with an error that affects all Services does not pass', () => {
    const whole = findingOf('node-a', null, {code: 'ST305', name: 'no-service-rules'});
    const report = reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web'], findings: [whole]});
    expect(outcomes(resultsOf(report))).toEqual(['fail ST305 no-service-rules node-a', 'pass svc-trace node-read node-b']);
    expect(outcomes(resultsOf(report, 'shop'))).toEqual(['skip svc-trace service-programmed web']);
  });

  test('a Service whose API objects are incomplete does not pass', () => {
    const problem = {...findingOf('', null, {code: 'ST901', name: 'node-not-read', severity: 'warning'}), node: undefined};
    const {node: _, ...unseen} = problem;
    const report = reportOf({nodes: ['node-a'], services: ['shop/web'], findings: [unseen]});
    expect(outcomes(resultsOf(report))).toEqual(['error ST901 node-not-read', 'pass svc-trace node-read node-a']);
    expect(outcomes(resultsOf(report, 'shop'))).toEqual(['skip svc-trace service-programmed web']);
  });

  test('a Service does not pass if no node was checked', () => {
    expect(outcomes(resultsOf(reportOf({nodes: [], services: ['shop/web']}), 'shop'))).toEqual(['skip svc-trace service-programmed web']);
  });

  test('a node that kube-proxy does not serve does not pass', () => {
    const cilium = {...unreadNode('node-c', 'served by Cilium'), status: 'unsupported'} as const;
    const report = reportOf({nodes: ['node-a', cilium], services: ['shop/web']});
    expect(outcomes(resultsOf(report))).toEqual(['skip svc-trace node-read node-c', 'pass svc-trace node-read node-a']);
    expect(outcomes(resultsOf(report, 'shop'))).toEqual(['pass svc-trace service-programmed web']);
  });
});

describe('a report of many results', () => {
  test('contains all of 5,000 nodes without findings', () => {
    const nodes = Array.from({length: 5000}, (_, index) => `ip-10-${index >> 8}-${index & 255}-17.eu-central-1.compute.internal`);
    const [cluster] = objectsOf(reportOf({nodes, services: []}), {unixTime: 1_800_000_000});
    expect(cluster?.summary).toEqual({pass: 5000, fail: 0, warn: 0, error: 0, skip: 0});
    expect(Buffer.byteLength(JSON.stringify(cluster))).toBeLessThan(1.5 * 1024 * 1024);
  });

  test("stays below etcd's limit, keeps the most severe results, and counts the others", () => {
    const services = numbered('shop/web', 9000);
    const findings = services.slice(8000).map(service => findingOf('node-a', service));
    const [, shop] = objectsOf(reportOf({nodes: ['node-a'], services, findings}), {unixTime: 1_800_000_000});
    expect(Buffer.byteLength(JSON.stringify(shop))).toBeLessThan(1.5 * 1024 * 1024);
    const {results = [], summary = {}} = shop ?? {};
    expect(results.filter(({result}) => result === 'fail')).toHaveLength(1000);
    expect(summary).toEqual({pass: 8000, fail: 1000, warn: 0, error: 0, skip: 1});
    const shown = results.filter(({result}) => result === 'pass').length;
    expect(shown).toBeGreaterThan(1000);
    expect(results[0]).toMatchObject({
      ...{rule: 'results-left-out', result: 'skip'},
      message: `there is no room here for ${8000 - shown} results (${8000 - shown} pass); the summary counts them, and check -o json shows them`,
    });
  });

  test('has a warning if faults are left out', () => {
    const services = numbered('shop/web', 2000);
    const findings = services.map(service => ({...findingOf('node-a', service), message: 'x'.repeat(1000)}));
    const [, shop] = objectsOf(reportOf({nodes: ['node-a'], services, findings}), {unixTime: 1_800_000_000});
    const {results = [], summary = {}} = shop ?? {};
    expect(results[0]).toMatchObject({rule: 'results-left-out', result: 'warn'});
    expect(results.slice(1).every(({result}) => result === 'fail')).toBe(true);
    expect(summary).toEqual({pass: 0, fail: 2000, warn: 1, error: 0, skip: 0});
  });
});
