import {XMLParser, XMLValidator} from 'fast-xml-parser';
import {describe, expect, test} from 'vitest';
import type {Report} from '../../src/model/report.ts';
import {junit} from '../../src/render/junit.ts';
import {findingOf, hostile, plain, reportOf, ruleOf, unreadNode} from './report.ts';

interface TestCase {
  readonly name: string;
  readonly classname: string;
  readonly failure?: {readonly type: string; readonly message: string; readonly '#text': string};
  readonly skipped?: {readonly message: string};
  readonly 'system-out'?: string;
}

interface Suite {
  readonly name: string;
  readonly tests: string;
  readonly failures: string;
  readonly skipped: string;
  readonly testcase: readonly TestCase[];
}

function suitesOf(text: string): readonly Suite[] {
  expect(XMLValidator.validate(text)).toBe(true);
  const parser = new XMLParser({
    ignoreAttributes: false,
    attributeNamePrefix: '',
    isArray: name => name === 'testsuite' || name === 'testcase',
  });
  return parser.parse(text).testsuites.testsuite;
}

const report: Report = reportOf({
  nodes: ['node-a', unreadNode('node-b', 'no answer within 30 s')],
  services: ['shop/web', 'shop/api'],
  findings: [
    findingOf('node-a', 'shop/web', {message: 'a <rule> & more', actual: [ruleOf('-A KUBE-SERVICES -j "X"', 7)]}),
    findingOf('node-a', 'shop/api', {code: 'ST208', name: 'uneven-balance', severity: 'warning'}),
  ],
});

test('each Service on each node is a test case, and what reaches the threshold fails with its evidence', () => {
  const [first] = suitesOf(junit(report, plain));
  expect(first).toMatchObject({name: 'node-a', tests: '3', failures: '1', skipped: '0'});
  const web = first?.testcase.find(({name}) => name === 'shop/web');
  expect(web).toMatchObject({classname: 'node-a', failure: {type: 'ST202', message: 'a <rule> & more'}});
  expect(web?.failure?.['#text']).toContain('line 7: nat -A KUBE-SERVICES -j "X"');
  const api = first?.testcase.find(({name}) => name === 'shop/api');
  expect(api?.failure).toBeUndefined();
  expect(api?.['system-out']).toContain('ST208 warning');
});

test('with a lower threshold a warning fails too', () => {
  const [first] = suitesOf(junit(report, {...plain, failOn: 'warning'}));
  expect(first?.failures).toBe('2');
});

test('with no threshold, and for a finding that is known, nothing fails', () => {
  expect(suitesOf(junit(report, {...plain, failOn: 'never'}))[0]?.failures).toBe('0');
  const known = {...report, findings: report.findings.map(finding => ({...finding, known: true as const}))};
  expect(suitesOf(junit(known, {...plain, failOn: 'warning'}))[0]?.failures).toBe('0');
});

test('the test cases of a node that was not read are skipped, with the reason', () => {
  const second = suitesOf(junit(report, plain))[1];
  expect(second).toMatchObject({name: 'node-b', tests: '3', skipped: '3'});
  expect(second?.testcase.map(({skipped}) => skipped?.message)).toEqual(Array(3).fill('no answer within 30 s'));
});

test('what the API alone shows stands in a suite of its own', () => {
  const {node: _, ...finding} = findingOf('', 'shop/web', {code: 'ST101', severity: 'warning'});
  const [api] = suitesOf(junit({...report, findings: [finding]}, plain));
  expect(api).toMatchObject({name: 'API', tests: '1'});
  expect(api?.testcase[0]?.['system-out']).toContain('ST101 warning');
});

describe('text from the cluster', () => {
  test.each(Object.entries({...hostile, markup: '"><failure message="x', lone: 'a\ud800b', nul: 'a\u0000b'}))(
    'leaves valid XML: %s',
    (_, name) => {
      const bad = reportOf({
        nodes: [name],
        services: [`shop/${name}`],
        findings: [findingOf(name, `shop/${name}`, {actual: [ruleOf(name, 1)]})],
      });
      const [suite] = suitesOf(junit(bad, plain));
      expect(suite?.failures).toBe('1');
      expect(suite?.testcase).toHaveLength(2);
    },
  );
});
