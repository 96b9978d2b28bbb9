import {describe, expect, test} from 'vitest';
import {assertBroken, assertClean, assertDiff, assertPacket, assertStopped, assertTrace} from './right-report.ts';

const summary = {verdict: 'ok', errors: 0, warnings: 0, infos: 0, nodesChecked: 2, nodesUnread: 0, services: 5, servicePorts: 5};

const report = (changes: object, findings: object[] = []) => ({
  exitCode: 0,
  stdout: JSON.stringify({summary: {...summary, ...changes}, findings}),
});

test.each([
  ['no finding', {}, []],
  ['an info', {verdict: 'findings', infos: 1}, [{severity: 'info'}]],
])('%s is clean', (_, changes, findings) => {
  expect(() => assertClean(report(changes, findings), 2)).not.toThrow();
});

test.each([
  ['a warning', {verdict: 'findings', warnings: 1}, [{severity: 'warning', code: 'ST999'}], 'ST999'],
  ['an incomplete check', {verdict: 'incomplete'}, [], 'incomplete'],
  ['an unread node', {nodesUnread: 1}, [], '1 nodes were not read'],
  ['a node left out', {nodesChecked: 1}, [], '1 of 2 nodes'],
  ['a check of nothing', {services: 0}, [], 'no Service'],
])('%s is not', (_, changes, findings, reason) => {
  expect(() => assertClean(report(changes, findings), 2)).toThrow(reason);
});

test('a check that failed is not, whatever it printed', () => {
  expect(() => assertClean({...report({}), exitCode: 3}, 2)).toThrow('exit code is 3');
});

const fault = (endpoint: string, code = 'ST202') => ({code, severity: 'error', endpoint});

describe('a node with faults', () => {
  const bundles = {nodes: ['node-a', 'node-b'], broken: ['10.0.0.1:80', '10.0.0.2:80']};
  const outcome = (findings: object[]) => ({...report({verdict: 'findings'}, findings), exitCode: 1});

  test('has one error for each broken endpoint', () => {
    expect(() => assertBroken(outcome([fault('10.0.0.2:80'), fault('10.0.0.1:80')]), bundles)).not.toThrow();
  });

  test.each([
    ['one fault is missing', [fault('10.0.0.1:80')], '1 endpoints get no traffic, and not 2'],
    ['another fault is reported', [fault('10.0.0.1:80'), fault('10.0.0.3:80')], '2 endpoints get no traffic, and not 2'],
    ['another code is reported', [fault('10.0.0.1:80'), fault('10.0.0.2:80'), fault('10.0.0.2:80', 'ST203')], '1 other findings'],
  ])('has a wrong report when %s', (_, findings, reason) => {
    expect(() => assertBroken(outcome(findings), bundles)).toThrow(reason);
  });
});

describe('a kube-proxy that stopped', () => {
  const outcome = (...codes: string[]) => ({
    ...report(
      {verdict: 'findings'},
      codes.map(code => ({code, severity: 'error'})),
    ),
    exitCode: 1,
  });

  test('has missing and stale endpoints', () => {
    expect(() => assertStopped(outcome('ST202', 'ST203'), 2)).not.toThrow();
  });

  test.each([
    ['no endpoint is stale', ['ST202'], 'no endpoint is stale'],
    ['none is missing', ['ST203'], 'no endpoint is missing'],
    ['another code is reported', ['ST202', 'ST203', 'ST206'], '1 other findings'],
  ])('has a wrong report when %s', (_, codes, reason) => {
    expect(() => assertStopped(outcome(...codes), 2)).toThrow(reason);
  });
});

const target = {
  node: 'node-a',
  service: 'shop/web',
  source: '10.1.0.9',
  clusterIP: '10.96.0.9',
  port: 80,
  endpoints: ['10.0.0.1:80', '10.0.0.2:80'],
};

describe('a trace', () => {
  const outcome = (nodes: readonly string[], endpoints: readonly string[], mark = 'ok') => {
    const {stdout} = report({});
    const entries = [{mark: 'ok', endpoints: endpoints.map(endpoint => ({endpoint, mark}))}];
    return {exitCode: 0, stdout: JSON.stringify({...JSON.parse(stdout), traces: nodes.map(node => ({node, entries}))})};
  };
  const bundles = {nodes: ['node-a', 'node-b'], target};

  test('leads from every node to every endpoint', () => {
    expect(() => assertTrace(outcome(['node-a', 'node-b'], target.endpoints), bundles)).not.toThrow();
  });

  test.each([
    ['from one node', outcome(['node-a'], target.endpoints), '1 of 2 nodes were traced'],
    ['to one endpoint', outcome(['node-a', 'node-b'], ['10.0.0.1:80']), 'other endpoints'],
    ['to one that is missing', outcome(['node-a', 'node-b'], target.endpoints, 'missing'), 'not all paths are ok'],
  ])('is wrong when no path leads %s', (_, wrong, reason) => {
    expect(() => assertTrace(wrong, bundles)).toThrow(reason);
  });
});

describe('a packet', () => {
  const outcome = (...probabilities: number[]) => ({
    exitCode: 0,
    stdout: JSON.stringify({
      outcomes: probabilities.map((probability, index) => ({verdict: 'accept', destination: target.endpoints[index] ?? null, probability})),
    }),
  });

  test('reaches all endpoints with the same probability', () => {
    expect(() => assertPacket(outcome(0.5, 0.5), target)).not.toThrow();
    expect(() => assertPacket(outcome(1), target)).toThrow('other endpoints');
    expect(() => assertPacket(outcome(0.6, 0.4), target)).toThrow('other probabilities');
  });
});

describe('a diff', () => {
  const rule = '-A KUBE-SEP-A -p tcp -j DNAT --to-destination 10.0.0.1:80';
  const outcome = (came: string[], went: string[], findings: object[]) => ({
    exitCode: 1,
    stdout: JSON.stringify({rules: [{came, went}], findings: findings.map(finding => ({kind: 'came', finding}))}),
  });

  test('names the removed rules, and the new errors of their endpoints', () => {
    expect(() => assertDiff(outcome([], [rule], [fault('10.0.0.1:80')]), ['10.0.0.1:80'])).not.toThrow();
  });

  test.each([
    ['a rule too few', outcome([], [], [fault('10.0.0.1:80')]), '0 rules were removed, and not 1'],
    ['a rule that was added', outcome([rule], [rule], [fault('10.0.0.1:80')]), 'rules were added'],
    ['no finding', outcome([], [rule], []), '0 endpoints get no traffic, and not 1'],
  ])('%s is wrong', (_, wrong, reason) => {
    expect(() => assertDiff(wrong, ['10.0.0.1:80'])).toThrow(reason);
  });
});
