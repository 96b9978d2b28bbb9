import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {Ajv2020} from 'ajv/dist/2020.js';
import {expect, test} from 'vitest';
import {preview} from '../../src/preview/preview-run.ts';
import {previewRenderers} from '../../src/render/preview/index.ts';
import {snapshotOf} from '../fixtures.ts';

const validate = new Ajv2020({allErrors: true}).compile(
  JSON.parse(readFileSync(join(import.meta.dirname, '../../docs/preview.schema.json'), 'utf8')),
);

test.each([
  ['healthy/1.36-iptables', 'nftables'],
  ['ipvs/1.36', 'iptables'],
  ['nftables/1.36', 'iptables'],
  ['healthy/1.28-iptables', 'nftables'],
  ['nftables/1.36', 'nftables'],
])('the preview of %s in %s mode matches the schema', async (capture, mode) => {
  const snapshot = await snapshotOf(capture);
  const plan = {overrides: {mode}, configFile: null};
  const report = preview({
    snapshot,
    nodes: snapshot.nodes,
    plan,
    apiAfter: snapshot.api,
    selects: () => true,
    scope: [],
    services: 34,
    expectedOnly: false,
    notes: [],
  });
  const provenance = {command: 'kubectl svc-trace preview -A', source: 'bundle', serverVersion: 'v1.36.2', takenAt: '2026-11-21T09:31:23Z'};
  const options = {color: false, width: 120, quiet: false, verbose: false, failOn: 'error', provenance} as const;
  const printed = JSON.parse(previewRenderers.json(report, options));
  expect(printed.origin).toMatchObject({source: 'bundle', serverVersion: 'v1.36.2', readAt: '2026-11-21T09:31:23Z'});
  validate(printed);
  expect(validate.errors).toBeNull();
});

test('a change without its packet does not match the schema', () => {
  expect(validate({schemaVersion: 1, changes: [{node: 'node-a', effect: 'lost'}]})).toBe(false);
});
