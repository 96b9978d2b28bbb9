import type {Log} from 'sarif';
import {expect, test} from 'vitest';
import {sarif} from '../../src/render/sarif.ts';
import {findingOf, hostile, plain, reportOf, ruleOf} from './report.ts';

const finding = findingOf('node-a', 'shop/web', {actual: [ruleOf('-A KUBE-SERVICES -j X', 7)], endpoint: '10.0.0.1:80'});

function logOf(findings: readonly (typeof finding)[]): Log {
  return JSON.parse(sarif(reportOf({nodes: ['node-a'], services: ['shop/web'], findings}), plain));
}

test('a finding is a result of the rule with its code, at the line of the rule in the dump', () => {
  const [run] = logOf([finding, {...finding, code: 'ST101', severity: 'warning'}]).runs;
  expect(run?.tool.driver.rules?.map(({id}) => id)).toEqual(['ST101', 'ST202']);
  expect(run?.results?.[0]).toMatchObject({
    ...{ruleId: 'ST202', ruleIndex: 1, level: 'error'},
    locations: [
      {
        physicalLocation: {artifactLocation: {uri: 'nodes/node-a/iptables-save'}, region: {startLine: 7}},
        logicalLocations: [{fullyQualifiedName: 'node node-a shop/web 10.0.0.1:80'}],
      },
    ],
  });
});

test('every rule has a summary, help and a link', () => {
  const rules = logOf([finding]).runs[0]?.tool.driver.rules ?? [];
  expect(rules).toHaveLength(1);
  for (const {shortDescription, help, helpUri} of rules) {
    expect(shortDescription?.text.length).toBeGreaterThan(10);
    expect(help?.text.length).toBeGreaterThan(10);
    expect(helpUri).toMatch(/^https:.*ST202\.md$/);
  }
});

test('the fingerprint stays when words and lines change, and differs by node', () => {
  const print = (one: typeof finding): unknown => logOf([one]).runs[0]?.results?.[0]?.partialFingerprints;
  expect(print({...finding, message: 'in other words', actual: [ruleOf('x', 99)]})).toEqual(print(finding));
  expect(print({...finding, node: 'node-b'})).not.toEqual(print(finding));
});

test('a known finding is suppressed', () => {
  expect(logOf([{...finding, known: true}]).runs[0]?.results?.[0]?.suppressions).toMatchObject([{kind: 'external'}]);
});

test('a location is a valid URI whatever the node is called', () => {
  const log = logOf([{...finding, node: 'a b%\u001b'}]);
  expect(log.runs[0]?.results?.[0]?.locations?.[0]?.physicalLocation?.artifactLocation?.uri).toBe('nodes/a%20b%25%1B/iptables-save');
});

test.each(Object.entries(hostile))('nothing hostile is left in the text: %s', (_, name) => {
  const text = sarif(reportOf({nodes: [name], services: [name], findings: [findingOf(name, `shop/${name}`)]}), plain);
  expect(text).not.toContain(name);
  expect(JSON.parse(text).runs[0].results).toHaveLength(1);
});
