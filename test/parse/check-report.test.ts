import {describe, expect, test} from 'vitest';
import {parseCheckReport, startsAsReport} from '../../src/parse/check-report.ts';
import {json} from '../../src/render/json.ts';
import {traceRenderers} from '../../src/render/trace-index.ts';
import {reports} from '../render/real-reports.ts';
import {plain} from '../render/report.ts';

describe.each(Object.entries(reports))('a report: %s', (_, make) => {
  test.each([json, traceRenderers.json])('is read as it was written', async render => {
    const report = await make();
    const read = parseCheckReport(render(report, plain));
    if ('whyNot' in read) throw new Error(read.whyNot);
    expect(read.findings.map(({code, message}) => [code, message])).toEqual(report.findings.map(({code, message}) => [code, message]));
    expect(read.nodes.map(({name, status}) => [name, status])).toEqual(report.nodes.map(({name, status}) => [name, status]));
    expect(startsAsReport(render(report, plain).slice(0, 100))).toBe(true);
  });
});

const finding = {code: 'ST202', name: 'missing-endpoint', severity: 'error', message: 'm', remedy: 'r'};
const node = {name: 'node-a', status: 'checked', settings: {}};

function whyNot(value: unknown): string {
  const read = parseCheckReport(typeof value === 'string' ? value : JSON.stringify(value));
  return 'whyNot' in read ? read.whyNot : '';
}

const report = (findings: unknown, nodes: unknown = [node]) => ({schemaVersion: 1, findings, nodes});

test('a byte-order mark before it is ignored', () => {
  expect(whyNot(`\ufeff${JSON.stringify(report([finding]))}`)).toBe('');
});

test.each<[string, unknown, string]>([
  ['nothing', '', 'it is empty'],
  ['half a report', '{"schemaVersion": 1, "find', 'it is not JSON, or it is truncated'],
  ['a table', 'FAULTY: 1 error', 'it is not JSON, or it is truncated'],
  ['something else', {version: '2.1.0', runs: []}, 'it is no report of check -o json'],
  ['a list', [1, 2], 'it is no report of check -o json'],
  ['null', 'null', 'it is no report of check -o json'],
  ['a later schema', {...report([]), schemaVersion: 2}, 'it is a report of schemaVersion 2, and this version of svc-trace reads 1'],
  ['a plan', {schemaVersion: 1, nodes: [], requirements: []}, 'it is the plan of a preview, which check --plan compares with nodes'],
  ['no lists', {schemaVersion: 1}, 'it has no lists of findings and nodes'],
])('%s is refused with the reason', (_, value, reason) => {
  expect(whyNot(value)).toBe(reason);
});

test.each<[string, object]>([
  ['no code', {code: undefined}],
  ['an unknown severity', {severity: 'fatal'}],
  ['a Service that is a string', {service: 'shop/web'}],
  ['an entry that is null', {entry: null}],
  ['an address that is a number', {entry: {kind: 'clusterIP', address: 7, port: 80}}],
  ['a port that is a number', {port: 80}],
  ['no message', {message: 7}],
])('a finding with %s is refused with its index', (_, odd) => {
  expect(whyNot(report([finding, {...finding, ...odd}]))).toBe('finding 2 in it cannot be read');
});

test.each<[string, object]>([
  ['no name', {name: null}],
  ['invalid settings', {settings: {mode: null}}],
])('a node with %s is refused', (_, odd) => {
  expect(whyNot(report([finding], [{...node, ...odd}]))).toBe('node 1 in it cannot be read');
});
