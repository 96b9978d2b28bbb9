import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {Ajv2020} from 'ajv/dist/2020.js';
import {expect, test} from 'vitest';
import type {Preview} from '../../src/model/preview-result.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {preview} from '../preview-of.ts';
import {previewRenderers} from '../../src/render/preview/preview-report.ts';
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
  const report = previewOf(await snapshotOf(capture), mode, true);
  const provenance = {command: 'kubectl svc-trace preview -A', source: 'bundle', serverVersion: 'v1.36.2', takenAt: '2026-11-21T09:31:23Z'};
  const options = {...plain, provenance};
  const printed = JSON.parse(previewRenderers.json(report, options));
  expect(printed.origin).toMatchObject({source: 'bundle', serverVersion: 'v1.36.2', readAt: '2026-11-21T09:31:23Z'});
  validate(printed);
  expect(validate.errors).toBeNull();
});

test('the rules of an outcome are those of the dump today, and those that kube-proxy would write after the change', async () => {
  const snapshot = await snapshotOf('healthy/1.36-iptables');
  const {changes} = JSON.parse(previewRenderers.json(previewOf(snapshot, 'nftables', true), plain));
  const [first] = changes;
  expect(first).toMatchObject({node: 'node-a', packet: {destination: '127.0.0.1'}, effect: 'lost'});
  const dump =
    snapshot.nodes
      .find(({name}) => name === 'node-a')
      ?.read('iptables-save')
      ?.toString()
      .split('\n') ?? [];
  const [{path}] = first.before;
  expect(path.map(({chain}: {chain: string}) => chain)).toEqual(expect.arrayContaining(['OUTPUT', 'KUBE-SERVICES', 'KUBE-NODEPORTS']));
  for (const {line, rule} of path) expect(dump[line - 1]).toBe(rule);
  const chains = first.after[0].path.map(({chain}: {chain: string}) => chain);
  expect(chains).toContain('nat-output');
  expect(chains).not.toContain('KUBE-SERVICES');
});

test('the rules of outcomes are left out where nobody asks for them', async () => {
  const {changes} = JSON.parse(previewRenderers.json(previewOf(await snapshotOf('healthy/1.36-iptables'), 'nftables', false), plain));
  expect(changes[0].before[0]).not.toHaveProperty('path');
});

function previewOf(snapshot: Snapshot, mode: string, paths: boolean): Preview {
  const plan = {overrides: {mode}, configFile: null};
  const given = {apiAfter: snapshot.api, selects: () => true, scope: [], services: 34, expectedOnly: false, notes: []};
  return preview({snapshot, nodes: snapshot.nodes, plan, paths, ...given});
}

const plain = {color: false, width: 120, quiet: false, verbose: true, failOn: 'error'} as const;

test('a change without its packet does not match the schema', () => {
  expect(validate({schemaVersion: 1, changes: [{node: 'node-a', effect: 'lost'}]})).toBe(false);
});
