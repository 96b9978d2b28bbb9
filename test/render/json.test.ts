import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {Ajv2020} from 'ajv/dist/2020.js';
import {load} from 'js-yaml';
import {describe, expect, test} from 'vitest';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import {type DiagnoseOptions, diagnose} from '../../src/diagnose.ts';
import {type Finding, severities} from '../../src/model/finding.ts';
import type {Report} from '../../src/model/report.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {json, jsonPieces, reportObject, toJson, toYaml, yaml, yamlPieces} from '../../src/render/json.ts';
import {diagnosed} from '../diagnosed.ts';
import {captureNames, capturePath, fixture, snapshotOf} from '../fixtures.ts';
import {scenario} from '../scenario.ts';
import {findingOf, hostile, numbered, plain, reportOf, ruleOf} from './report.ts';
import {someOf} from '../cases.ts';

const schema: object = JSON.parse(readFileSync(join(import.meta.dirname, '../../docs/check.schema.json'), 'utf8'));
const ajv = new Ajv2020({allErrors: true, strictTypes: false, strictRequired: false});
/** The schema lets fields be added; a report of this version must have none that it does not name. */
const validate = ajv.compile(closed(schema) as object);
const validateOpen = ajv.compile({...schema, $id: 'open'});

function closed(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(closed);
  if (typeof part !== 'object' || part === null) return part;
  const inner = Object.fromEntries(Object.entries(part).map(([name, value]) => [name, closed(value)]));
  return 'type' in inner && inner['type'] === 'object' && !('additionalProperties' in inner)
    ? {...inner, additionalProperties: false}
    : inner;
}

function reportJson(snapshot: Snapshot, options: Partial<DiagnoseOptions> = {}): string {
  return json(diagnose(snapshot, {toolVersion: '0.0.0', ...options}), plain);
}

interface FindingJson {
  readonly code: string;
  readonly severity: (typeof severities)[number];
  readonly service?: {readonly namespace: string; readonly name: string};
  readonly port?: {readonly port: number};
  readonly node?: string;
}

interface CheckJson {
  readonly summary: Readonly<Record<string, unknown>>;
  readonly nodes: readonly {readonly name: string}[];
  readonly findings: readonly FindingJson[];
}

describe.each(someOf(captureNames('healthy', 'settings', 'eras', 'faults')))('%s', name => {
  test('the report matches the schema, and is the same every time', async () => {
    const text = json(diagnosed(await snapshotOf(name)), plain);
    validate(JSON.parse(text));
    expect(validate.errors).toBeNull();
    expect(reportJson(await readBundle(capturePath(name)))).toBe(text);
  });

  test('nodes and findings are sorted', async () => {
    const {nodes, findings}: CheckJson = JSON.parse(json(diagnosed(await snapshotOf(name)), plain));
    expect(nodes.map(node => node.name)).toEqual(nodes.map(node => node.name).sort());
    const keys = findings.map(sortKey);
    expect(keys).toEqual([...keys].sort());
  });

  test('YAML contains the same', async () => {
    const report = diagnosed(await snapshotOf(name));
    expect(load(yaml(report, plain))).toEqual(JSON.parse(json(report, plain)));
  });
});

describe('a report that is written in pieces', () => {
  const {nodes, services} = {nodes: ['node-a'], services: numbered('shop/web', 700)};
  const of = (findings: readonly Finding[]): Report => reportOf({nodes, services, findings});
  const many = services.map(service => findingOf('node-a', service, {expected: [ruleOf('-A KUBE-SERVICES -j "a\\nb"')]}));
  const last = findingOf('node-a', services[699] ?? '', {message: `${hostile.bidi} ${hostile.c1}\n`});

  test.each<[string, readonly Finding[]]>([
    ['without findings', []],
    ['with one finding', many.slice(0, 1)],
    ['with one piece of findings', many.slice(0, 256)],
    ['with several', many],
    ['with characters that a terminal interprets in the last', [...many.slice(0, 699), last]],
  ])('%s is the text of the whole', (_, findings) => {
    const whole = reportObject(of(findings), plain);
    const pieces = [...jsonPieces(of(findings), plain)];
    expect(pieces.join('')).toBe(toJson(whole));
    expect(yamlPieces(of(findings), plain).join('')).toBe(toYaml(whole));
    expect(Math.max(...pieces.map(piece => piece.split('"code"').length - 1))).toBeLessThanOrEqual(256);
  });

  test('all of its YAML is quoted if a finding far behind needs it', () => {
    const [first = ''] = yamlPieces(of([...many.slice(0, 699), last]), plain);
    expect(first).toContain('verdict: "findings"');
    expect(yamlPieces(of(many), plain)[0]).toContain('verdict: findings');
  });
});

function sortKey({severity, code, service, port, node}: FindingJson): string {
  const number = String(port?.port ?? 0).padStart(5, '0');
  return [severities.indexOf(severity), code, service?.namespace ?? '', service?.name ?? '', number, node ?? ''].join('\0');
}

describe('the schema matches a report', () => {
  test('with --wait', () => {
    const nodes = [{name: 'node-a', look: 2, seconds: 1.5}, {name: 'node-b'}];
    const wait = {limitSeconds: 60, seconds: 60.1, looks: 14, clean: false, nodes};
    const report: unknown = JSON.parse(json(reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web'], wait}), plain));
    validate(report);
    expect(validate.errors).toBeNull();
    expect(report).toMatchObject({wait});
  });

  test('of a bare dump', async () => {
    const text = reportJson(await readBundle(fixture('kube-proxy-example-1.36.iptables-save')));
    validate(JSON.parse(text));
    expect(validate.errors).toBeNull();
  });

  test('of unread nodes, and of API objects alone', async () => {
    const partly = await scenario('faults/missing-endpoint');
    partly.leaveOut('node-b');
    partly.file('node-c', 'iptables-save', 'nothing of use\n');
    const apiOnly = await scenario();
    apiOnly.leaveOutNodes();
    for (const snapshot of [partly.snapshot(), apiOnly.snapshot()]) {
      validate(JSON.parse(reportJson(snapshot)));
      expect(validate.errors).toBeNull();
    }
  });

  test('of Services of another proxy, requested by name', async () => {
    const options = {byName: true, selects: ({metadata}: {metadata: {name: string}}) => ['headless', 'alias'].includes(metadata.name)};
    const report: CheckJson = JSON.parse(reportJson(await snapshotOf('healthy/1.36-iptables'), options));
    expect(validate(report)).toBe(true);
    expect(report.findings.map(({code}) => code)).toEqual(['ST107', 'ST107']);
  });
});

describe('an invalid report is rejected', async () => {
  const good = JSON.parse(reportJson(await snapshotOf('faults/skewed-balance')));
  const [finding] = good.findings;
  const [node] = good.nodes;
  const evidence = {table: 'nat', chain: 'A', line: 1, rule: '-A A'};

  test.each<[string, object]>([
    ['no summary', {...good, summary: undefined}],
    ['another schema version', {...good, schemaVersion: 2}],
    ['an unknown verdict', {...good, summary: {...good.summary, verdict: 'fine'}}],
    ['a negative count', {...good, summary: {...good.summary, errors: -1}}],
    ['an unread node without a reason', {...good, nodes: [{...node, status: 'unread'}]}],
    ['a checked node without its kube-proxy', {...good, nodes: [{...node, kubeProxyVersion: undefined}]}],
    ['a setting without its source', {...good, nodes: [{...node, settings: {mode: {value: 'iptables'}}}]}],
    ['a finding without its remedy', {...good, findings: [{...finding, remedy: undefined}]}],
    ['an invalid code', {...good, findings: [{...finding, code: 'ST20'}]}],
    ['an unknown severity', {...good, findings: [{...finding, severity: 'fatal'}]}],
    ['a cluster IP without its address', {...good, findings: [{...finding, entry: {kind: 'clusterIP', port: 80}}]}],
    ['a protocol in lower case', {...good, findings: [{...finding, port: {name: 'http', protocol: 'tcp', port: 80}}]}],
    ['an endpoint without its port', {...good, findings: [{...finding, endpoint: '10.0.0.1'}]}],
    ['evidence without its line', {...good, findings: [{...finding, actual: [{...evidence, line: undefined}]}]}],
    ['an expected rule that is an object', {...good, findings: [{...finding, expected: [evidence]}]}],
  ])('%s', (_, broken) => {
    expect(validateOpen(good)).toBe(true);
    expect(validateOpen(JSON.parse(JSON.stringify(broken)))).toBe(false);
  });

  test('an unknown field is rejected here, and accepted by the published schema', () => {
    const newer = {...good, findings: [{...finding, more: '5m'}]};
    expect(validate(newer)).toBe(false);
    expect(validateOpen(newer)).toBe(true);
  });
});
