import {describe, expect, test} from 'vitest';
import {type Finding, isNoWorse, pairFindings} from '../../../src/model/finding.ts';
import {findingOf, ruleOf} from '../../render/report.ts';

const lost = findingOf('node-a', 'shop/web', {endpoint: '10.0.0.1:80', message: 'chain KUBE-SVC-A, line 7', actual: [ruleOf('x', 7)]});
const any = () => true;

test('findings with other messages, line numbers and chain names are the same finding', () => {
  const again = {...lost, message: 'chain KUBE-SVC-B, line 9', actual: [ruleOf('y', 9)]};
  expect(pairFindings([lost], [again], any)).toEqual({stayed: new Set([again]), came: [], went: []});
});

test.each<[string, Partial<Finding>]>([
  ['node', {node: 'node-b'}],
  ['endpoint', {endpoint: '10.0.0.2:80'}],
  ['code', {code: 'ST203'}],
  ['family', {family: 'IPv6'}],
])('another %s is another finding', (_, other) => {
  const next = {...lost, ...other};
  expect(pairFindings([lost], [next], any)).toEqual({stayed: new Set(), came: [next], went: [lost]});
});

describe('several findings about the same subject', () => {
  const unexpected = (message: string) => findingOf('node-a', null, {code: 'ST216', message});

  test('are known only as many times as before, those with equal messages first', () => {
    const [one, two] = [unexpected('rule one'), unexpected('rule two')];
    expect(pairFindings([two], [one, two], any)).toEqual({stayed: new Set([two]), came: [one], went: []});
    expect(pairFindings([unexpected('rule zero')], [one, two], any).came).toEqual([two]);
  });

  test('are resolved if they are missing', () => {
    const [one, two] = [unexpected('rule one'), unexpected('rule two')];
    expect(pairFindings([one, two], [unexpected('rule two')], any)).toMatchObject({came: [], went: [one]});
  });
});

test('are known with a lower severity, and new with a higher one', () => {
  const warning = {...lost, severity: 'warning'} as const;
  expect(pairFindings([warning], [lost], isNoWorse).came).toEqual([lost]);
  expect(pairFindings([lost], [warning], isNoWorse).came).toEqual([]);
});
