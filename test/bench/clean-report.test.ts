import {expect, test} from 'vitest';
import {assertClean} from './clean-report.ts';

const summary = {verdict: 'ok', errors: 0, warnings: 0, infos: 0, nodesChecked: 2, nodesUnread: 0, services: 5, servicePorts: 5};

const report = (changes: object, findings: object[] = []) => ({
  exitCode: 0,
  stdout: JSON.stringify({summary: {...summary, ...changes}, findings}),
});

test.each([
  ['no finding', {}, []],
  ['an information', {verdict: 'findings', infos: 1}, [{severity: 'info'}]],
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
  expect(() => assertClean({...report({}), exitCode: 3}, 2)).toThrow('exit code 3');
});
