import {readFileSync} from 'node:fs';
import {gzipSync} from 'node:zlib';
import {Ajv2020} from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type {Log, Result} from 'sarif';
import {describe, expect, test} from 'vitest';
import {sarif} from '../../../src/render/ci/sarif.ts';
import {fixture} from '../../fixtures.ts';
import {checked, loud, reports} from '../real-reports.ts';
import {findingOf, hostile, numbered, plain, reportOf, ruleOf} from '../report.ts';

const finding = findingOf('node-a', 'shop/web', {actual: [ruleOf('-A KUBE-SERVICES -j X', 7)], endpoint: '10.0.0.1:80'});

function logOf(findings: readonly (typeof finding)[]): Log {
  return JSON.parse(sarif(reportOf({nodes: ['node-a'], services: ['shop/web'], findings}), plain));
}

describe.each(Object.entries(reports))('a report: %s', (_, make) => {
  test('is valid by the schema of SARIF 2.1.0', async () => {
    validate(JSON.parse(sarif(await make(), loud)));
    expect(validate.errors).toBeNull();
  });

  test('has all that GitHub code scanning requires, and stays within its limits', async () => {
    const log = JSON.parse(sarif(await make(), loud)) as Log;
    expect(log.runs).toHaveLength(1);
    for (const {tool, results} of log.runs) {
      expect(tool.driver.name).toBe('svc-trace');
      for (const rule of tool.driver.rules ?? []) {
        for (const text of [rule.shortDescription?.text, rule.fullDescription?.text]) {
          expect(text?.length).toBeGreaterThan(10);
          expect(text?.length).toBeLessThanOrEqual(1024);
        }
        expect(rule.help?.text).not.toBe('');
        expect(rule.properties?.['problem.severity']).toMatch(/^(error|warning|recommendation)$/);
      }
      const prints = (results ?? []).map(result => {
        expect(result.message.text).not.toBe('');
        expect(tool.driver.rules?.[result.ruleIndex ?? -1]?.id).toBe(result.ruleId);
        return printOf(result);
      });
      expect(new Set(prints).size).toBe(prints.length);
    }
  });

  test('gives each result one location, in a file with a relative path and at valid lines and columns', async () => {
    const log = JSON.parse(sarif(await make(), loud)) as Log;
    for (const {locations = []} of log.runs[0]?.results ?? []) {
      expect(locations).toHaveLength(1);
      const {uri = '', region} = {...locations[0]?.physicalLocation, ...locations[0]?.physicalLocation?.artifactLocation};
      const root = 'https://example.invalid/repository/';
      expect(new URL(uri, root).href.startsWith(root)).toBe(true);
      const {startLine = 0, startColumn = 0, endLine = 0, endColumn = 0} = region ?? {};
      expect(startLine).toBeGreaterThan(0);
      expect(endLine).toBe(startLine);
      expect(startColumn).toBe(1);
      expect(endColumn).toBeGreaterThan(1);
    }
  });
});

const ajv = new Ajv2020({strict: false, allErrors: true});
addFormats.default(ajv);
const validate = ajv.compile(JSON.parse(readFileSync(fixture('schemas/sarif-2.1.0.json'), 'utf8')));

/** The only fingerprint by which GitHub distinguishes results. */
function printOf({partialFingerprints}: Result): string {
  const print = partialFingerprints?.['primaryLocationLineHash'] ?? '';
  expect(print).toMatch(/^[0-9a-f]{32}:\d+$/);
  return print;
}

test('the schema rejects invalid SARIF', () => {
  expect(validate({version: '2.1.0', runs: [{tool: {driver: {}}}]})).toBe(false);
  expect(validate({version: '2.1.0', runs: [{tool: {driver: {name: 'x', informationUri: 'no uri'}}}]})).toBe(false);
});

test('a finding is a result of the rule with its code, at the line of the rule in the dump', () => {
  const [run] = logOf([finding, {...finding, code: 'ST101', severity: 'warning'}]).runs;
  expect(run?.tool.driver.rules?.map(({id}) => id)).toEqual(['ST101', 'ST202']);
  expect(run?.results?.[0]).toMatchObject({
    ...{ruleId: 'ST202', ruleIndex: 1, level: 'error'},
    locations: [
      {
        physicalLocation: {
          artifactLocation: {uri: 'nodes/node-a/iptables-save'},
          region: {startLine: 7, startColumn: 1, endLine: 7, endColumn: 22},
        },
        logicalLocations: [{fullyQualifiedName: 'node node-a shop/web 10.0.0.1:80'}],
      },
    ],
  });
});

test.each([
  ['ipvs', 'ipvsadm-save'],
  ['ipset', 'ipset-save'],
  ['kube-ipvs0', 'kube-ipvs0.json'],
  ['ip6 kube-proxy', 'nft.json'],
  ['inet firewall', 'nft.json'],
])('evidence of %s is in %s', (table, file) => {
  const [run] = logOf([{...finding, actual: [{...ruleOf('x', 3), table}]}]).runs;
  expect(run?.results?.[0]?.locations?.[0]?.physicalLocation?.artifactLocation?.uri).toBe(`nodes/node-a/${file}`);
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

test('the fingerprint does not depend on message and lines, and differs by node', () => {
  const print = (one: typeof finding) => logOf([one]).runs[0]?.results?.map(printOf);
  expect(print({...finding, message: 'in other words', actual: [ruleOf('x', 99)]})).toEqual(print(finding));
  expect(print({...finding, node: 'node-b'})).not.toEqual(print(finding));
});

test('two findings about the same thing have fingerprints of their own', () => {
  const [one, other] = (logOf([finding, {...finding, message: 'another rule'}]).runs[0]?.results ?? []).map(printOf);
  expect(one?.slice(0, 32)).toBe(other?.slice(0, 32));
  expect(one).not.toBe(other);
});

test('the fingerprints of a capture are the same in every run', async () => {
  const prints = async () => (JSON.parse(sarif(await checked('faults/frozen-node'), plain)) as Log).runs[0]?.results?.map(printOf);
  expect(await prints()).toEqual(await prints());
});

test('a known finding is suppressed', () => {
  expect(logOf([{...finding, known: true}]).runs[0]?.results?.[0]?.suppressions).toMatchObject([{kind: 'external'}]);
});

test('a location is a valid URI whatever the node is called', () => {
  const log = logOf([{...finding, node: 'a b%\u001b'}]);
  expect(log.runs[0]?.results?.[0]?.locations?.[0]?.physicalLocation?.artifactLocation?.uri).toBe('nodes/a%20b%25%1B/iptables-save');
});

test.each(Object.entries(hostile))('no escape sequence is left in the text: %s', (_, name) => {
  const text = sarif(reportOf({nodes: [name], services: [name], findings: [findingOf(name, `shop/${name}`)]}), plain);
  expect(text).not.toContain(name);
  expect(JSON.parse(text).runs[0].results).toHaveLength(1);
});

test('of more findings than GitHub accepts the first are included and the rest counted, in a file that can be uploaded', () => {
  const nodes = numbered('node', 300);
  const findings = nodes.flatMap(node => numbered('web', 100).map(name => findingOf(node, `shop/${name}`)));
  const text = sarif(reportOf({nodes, services: [], findings}), plain);
  const [run] = (JSON.parse(text) as Log).runs;
  expect(run?.results).toHaveLength(25_000);
  expect(run?.invocations?.[0]?.toolExecutionNotifications?.[0]?.message.text).toBe(
    '5000 more findings do not fit in this file of at most 25000: 5000 of ST202.',
  );
  expect(gzipSync(text).length).toBeLessThan(10_000_000);
});
