import {expect, test} from 'vitest';
import {exitCode, type FailOn} from '../../src/run/options/wait-limit.ts';
import {findingOf, reportOf, unreadNode} from '../render/report.ts';

const error = findingOf('node-a', 'shop/web');
const warning = findingOf('node-a', 'shop/web', {code: 'ST208', severity: 'warning'});
const info = findingOf('node-a', 'shop/web', {code: 'ST218', severity: 'info'});
const unread = unreadNode('node-b', 'gone');

test.each<[string, Parameters<typeof reportOf>[0]['findings'], FailOn, number]>([
  ['nothing', [], 'info', 0],
  ['an error', [error], 'error', 1],
  ['an error below the threshold', [error], 'never', 0],
  ['a warning', [warning, info], 'error', 0],
  ['a warning that counts', [warning], 'warning', 1],
  ['an info that counts', [info], 'info', 1],
])('%s', (_, findings, failOn, code) => {
  expect(exitCode(reportOf({nodes: ['node-a'], services: ['shop/web'], findings: findings ?? []}), failOn)).toBe(code);
});

test('an unread node exits with 3, and a finding has precedence', () => {
  expect(exitCode(reportOf({nodes: ['node-a', unread], services: []}), 'error')).toBe(3);
  expect(exitCode(reportOf({nodes: ['node-a', unread], services: [], findings: [error]}), 'error')).toBe(1);
});

test('a known finding does not fail', () => {
  const report = (findings: readonly (typeof error)[]) => reportOf({nodes: ['node-a'], services: ['shop/web'], findings});
  expect(exitCode(report([{...error, known: true}]), 'error')).toBe(0);
  expect(
    exitCode(
      report([
        {...error, known: true},
        {...error, node: 'node-b'},
      ]),
      'error',
    ),
  ).toBe(1);
});
