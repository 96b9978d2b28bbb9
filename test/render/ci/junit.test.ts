import {XMLParser, XMLValidator} from 'fast-xml-parser';
import {parse} from 'junit2json';
import {beforeAll, describe, expect, test} from 'vitest';
import {validateXML} from 'xmllint-wasm';
import type {Report} from '../../../src/model/report.ts';
import {junit} from '../../../src/render/ci/junit.ts';
import type {RenderOptions} from '../../../src/render/renderer.ts';
import {readFixture} from '../../fixtures.ts';
import {loud, reports} from '../real-reports.ts';
import {findingOf, hostile, plain, reportOf, ruleOf, unreadNode} from '../report.ts';

const schema = readFixture('schemas/junit-10.xsd').toString();

/** What libxml2 has against each of some files by the schema that Jenkins publishes. It is started once for all of them. */
async function complaintsOf(files: Readonly<Record<string, string>>): Promise<(name: string) => readonly string[]> {
  const xml = Object.entries(files).map(([fileName, contents]) => ({fileName, contents}));
  const {errors} = await validateXML({xml, schema: [schema]});
  expect(errors.filter(({loc}) => files[loc?.fileName ?? ''] === undefined)).toEqual([]);
  return name => errors.filter(({loc}) => loc?.fileName === name).map(({rawMessage}) => rawMessage);
}

async function complaints(xml: string): Promise<readonly string[]> {
  return (await complaintsOf({'report.xml': xml}))('report.xml');
}

const all = Object.entries(reports);
const fileOf = (index: number, {verbose}: RenderOptions): string => `report-${index}${verbose ? '-verbose' : ''}.xml`;
let complaintsOfReports: (name: string) => readonly string[];

beforeAll(async () => {
  const files = await Promise.all(
    all.flatMap(([, make], index) => [plain, loud].map(async options => [fileOf(index, options), junit(await make(), options)] as const)),
  );
  complaintsOfReports = await complaintsOf({...Object.fromEntries(files), 'invalid.xml': '<testsuites><nothing/></testsuites>'});
});

test('a line of a name is no line of the report, and parsers read the name as it is', () => {
  const service = 'shop/web\n::error::all is well';
  const findings = [findingOf('node-a', service, {message: 'lost\n::error::again'})];
  const text = junit(reportOf({nodes: ['node-a'], services: [service], findings}), plain);
  expect(text).not.toMatch(/^::error::/m);
  expect(text).toContain('name="shop/web&#10;::error::all is well"');
});

test('the schema of Jenkins refuses an unknown element', () => {
  expect(complaintsOfReports('invalid.xml').join()).toContain("Element 'nothing'");
});

describe.each(all.map(([title, make], index) => ({title, make, index})))('a report: $title', ({make, index}) => {
  test.each([plain, loud])('is valid by the schema of Jenkins', options => {
    expect(complaintsOfReports(fileOf(index, options))).toEqual([]);
  });

  test('is read correctly by another parser, and its counts are those of its test cases', async () => {
    const read = await parse(junit(await make(), loud));
    const suites = read !== null && read !== undefined && 'testsuite' in read ? (read.testsuite ?? []) : [];
    for (const {testcase = [], tests, failures, errors, skipped} of suites) {
      expect({tests, failures, errors, skipped}).toEqual({
        tests: testcase.length,
        failures: testcase.filter(({failure}) => failure !== undefined).length,
        errors: testcase.filter(({error}) => error !== undefined).length,
        skipped: testcase.filter(made => made.skipped !== undefined).length,
      });
      const keys = testcase.map(({classname, name}) => JSON.stringify([classname, name]));
      expect(new Set(keys).size).toBe(keys.length);
    }
    const total = suites.reduce((sum, {tests = 0}) => sum + tests, 0);
    expect(read).toMatchObject({name: 'svc-trace', tests: total});
  });
});

test('the first suite contains time, source, scope and command, and all suites the time', async () => {
  const report = {...reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web']}), scope: 'namespace shop'};
  const provenance = {
    ...{command: 'kubectl svc-trace check -n shop', source: 'context "kind" (https://127.0.0.1:6443)', serverVersion: 'v1.36.2'},
    readAt: '2026-11-21T10:00:00Z',
  };
  const text = junit(report, {...plain, provenance});
  expect(await complaints(text)).toEqual([]);
  expect([...text.matchAll(/<property name="([^"]*)" value="([^"]*)"\/>/g)].map(([, name, value]) => `${name}: ${value}`)).toEqual([
    'read at: 2026-11-21T10:00:00Z',
    'from: context &quot;kind&quot; (https://127.0.0.1:6443)',
    'Kubernetes: v1.36.2',
    'scope: namespace shop',
    'command: kubectl svc-trace check -n shop',
  ]);
  expect(text.match(/<properties>/g)).toHaveLength(1);
  expect(text.match(/<testsuite [^>]*timestamp="2026-11-21T10:00:00"/g)).toHaveLength(2);
});

test('an invalid time is left out of the attributes', async () => {
  const report = reportOf({nodes: ['node-a'], services: ['shop/web']});
  const text = junit(report, {...plain, provenance: {command: 'x', source: 'bundle', takenAt: 'yesterday'}});
  expect(await complaints(text)).toEqual([]);
  expect(text).not.toContain('timestamp=');
});

test('a failure that likely follows from another finding of its node names it', () => {
  const cause = findingOf('node-a', null, {
    code: 'ST505',
    name: 'kube-proxy-not-syncing',
    severity: 'warning',
    message: 'it does not keep up',
  });
  const effects = ['a', 'b', 'c'].map(name => findingOf('node-a', `shop/${name}`, {message: `${name} lost an endpoint`}));
  const text = junit(reportOf({nodes: ['node-a'], services: ['shop/a', 'shop/b', 'shop/c'], findings: [...effects, cause]}), plain);
  expect(text).toContain('message="a lost an endpoint (likely from ST505 kube-proxy-not-syncing)"');
  // What to do is told once, by the cause: a cluster of stopped nodes has many thousands of these.
  expect(text).toContain('>ST202 a lost an endpoint</failure>');
  expect(text.match(/^ {2}do {8}/gm)).toHaveLength(1);
  const alone = junit(reportOf({nodes: ['node-a'], services: ['shop/a'], findings: effects.slice(0, 1)}), plain);
  expect(alone).toContain('message="a lost an endpoint"');
  expect(alone.match(/^ {2}do {8}/gm)).toHaveLength(1);
});

test('the schema rejects invalid JUnit reports', async () => {
  expect(await complaints('<testsuites skipped="1"/>')).toHaveLength(1);
  expect(await complaints('<testsuite/>')).not.toEqual([]);
});

interface TestCase {
  readonly name: string;
  readonly classname: string;
  readonly time: string;
  readonly error?: {readonly type: string; readonly message: string; readonly '#text': string};
  readonly failure?: {readonly type: string; readonly message: string; readonly '#text': string};
  readonly skipped?: {readonly message: string};
  readonly 'system-out'?: string;
}

interface Suite {
  readonly name: string;
  readonly tests: string;
  readonly failures: string;
  readonly errors: string;
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

test('without a threshold, and for a known finding, nothing fails', () => {
  expect(suitesOf(junit(report, {...plain, failOn: 'never'}))[0]?.failures).toBe('0');
  const known = {...report, findings: report.findings.map(finding => ({...finding, known: true as const}))};
  expect(suitesOf(junit(known, {...plain, failOn: 'warning'}))[0]?.failures).toBe('0');
});

test('a node that was not read is an error, with the reason, and its Services are skipped', () => {
  const second = suitesOf(junit(report, plain))[1];
  expect(second).toMatchObject({name: 'node-b', tests: '3', failures: '0', errors: '1', skipped: '2'});
  const [itself, ...services] = second?.testcase ?? [];
  expect(itself).toMatchObject({name: '(the node itself)', error: {type: 'ST901', message: 'no answer within 30 s'}});
  expect(services.map(({skipped}) => skipped?.message)).toEqual(Array(2).fill('no answer within 30 s'));
});

test('a node that kube-proxy does not serve is skipped, without an error', () => {
  const other = {...unreadNode('node-c', 'Cilium serves it'), status: 'unsupported' as const};
  const [suite] = suitesOf(junit(reportOf({nodes: [other], services: ['shop/web']}), plain));
  expect(suite).toMatchObject({tests: '2', failures: '0', errors: '0', skipped: '2'});
});

test('API objects that could not be read are an error', () => {
  const {node: _, ...finding} = findingOf('', null, {code: 'ST901', name: 'node-not-read', severity: 'warning', message: 'no slices'});
  const [api] = suitesOf(junit({...report, findings: [finding]}, plain));
  expect(api).toMatchObject({name: 'API', tests: '1', errors: '1', failures: '0'});
  expect(api?.testcase[0]).toMatchObject({name: '(the API itself)', error: {message: 'no slices'}});
});

test('findings of the API alone are in a suite of their own', () => {
  const {node: _, ...finding} = findingOf('', 'shop/web', {code: 'ST101', severity: 'warning'});
  const [api] = suitesOf(junit({...report, findings: [finding]}, plain));
  expect(api).toMatchObject({name: 'API', tests: '1'});
  expect(api?.testcase[0]?.['system-out']).toContain('ST101 warning');
});

test('a failure is named after the finding that fails, not after a known one beside it', () => {
  const findings = [
    {...findingOf('node-a', 'shop/web', {message: 'old'}), known: true as const},
    findingOf('node-a', 'shop/web', {message: 'new'}),
  ];
  const [suite] = suitesOf(junit({...report, findings}, plain));
  expect(suite?.testcase.find(({failure}) => failure !== undefined)?.failure?.message).toBe('new');
});

test("the time of a node's test case is how long it took to converge", () => {
  const wait = {
    ...{limitSeconds: 60, seconds: 60, looks: 9, clean: false},
    nodes: [{name: 'node-a', look: 2, seconds: 3.25}, {name: 'node-b'}],
  };
  const [first, second] = suitesOf(junit(reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web'], wait}), plain));
  expect(first?.testcase[0]).toMatchObject({time: '3.25', 'system-out': 'converged: in 3.3 s'});
  expect(second?.testcase[0]).toMatchObject({time: '0', 'system-out': 'converged: not yet'});
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
