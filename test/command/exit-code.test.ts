import {expect, test} from 'vitest';
import {exitCode, type FailOn} from '../../src/command/exit-code.ts';
import {identityOf} from '../../src/model/finding-identity.ts';
import {findingOf, reportOf, ruleOf, unreadNode} from '../render/report.ts';

const error = findingOf('node-a', 'shop/web');
const warning = findingOf('node-a', 'shop/web', {code: 'ST208', severity: 'warning'});
const info = findingOf('node-a', 'shop/web', {code: 'ST218', severity: 'info'});
const unread = unreadNode('node-b', 'gone');

test.each<[string, Parameters<typeof reportOf>[0]['findings'], FailOn, number]>([
  ['nothing', [], 'info', 0],
  ['an error', [error], 'error', 1],
  ['an error that is not to count', [error], 'never', 0],
  ['a warning', [warning, info], 'error', 0],
  ['a warning that counts', [warning], 'warning', 1],
  ['an info that counts', [info], 'info', 1],
])('%s', (_, findings, failOn, code) => {
  expect(exitCode(reportOf({nodes: ['node-a'], services: ['shop/web'], findings: findings ?? []}), failOn)).toBe(code);
});

test('a node that was not read is 3, and a finding outweighs it', () => {
  expect(exitCode(reportOf({nodes: ['node-a', unread], services: []}), 'error')).toBe(3);
  expect(exitCode(reportOf({nodes: ['node-a', unread], services: [], findings: [error]}), 'error')).toBe(1);
});

test('a finding that is known does not fail, whatever its words and line numbers', () => {
  const known = new Set([identityOf(error)]);
  const again = {...error, message: 'said in other words', actual: [ruleOf('-A KUBE-SERVICES', 7)]};
  const report = (findings: readonly (typeof error)[]) => reportOf({nodes: ['node-a'], services: ['shop/web'], findings});
  expect(exitCode(report([again]), 'error', known)).toBe(0);
  expect(exitCode(report([again, {...error, node: 'node-b'}]), 'error', known)).toBe(1);
  expect(exitCode(report([{...again, endpoint: '10.0.0.1:80'}]), 'error', known)).toBe(1);
});
