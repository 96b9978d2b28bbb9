import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {describe, expect, test} from 'vitest';
import {capturePath} from '../fixtures.ts';
import {kubectl, testWith} from '../require.ts';
import {startApplyServer} from './apply-server.ts';

const executable = join(import.meta.dirname, '../../bin/run.js');

const formats = {
  openreports: {apiVersion: 'openreports.io/v1alpha1', kind: 'Report', plural: 'reports'},
  policyreport: {apiVersion: 'wgpolicyk8s.io/v1alpha2', kind: 'PolicyReport', plural: 'policyreports'},
} as const;

describe.each(Object.entries(formats))('-o %s', (format, {apiVersion, kind, plural}) => {
  testWith(['kubectl'], 'goes through a real kubectl apply --server-side, twice to the same objects', async () => {
    await using server = await startApplyServer([
      {apiVersion, kind, plural, namespaced: true},
      {apiVersion, kind: `Cluster${kind}`, plural: `cluster${plural}`, namespaced: false},
    ]);
    const checked = await execa(process.execPath, [executable, ...checkArgs(format)], {reject: false});
    expect(checked.exitCode).toBe(1);
    const apply = () =>
      execa(kubectl, ['apply', '--kubeconfig', server.kubeconfig, '--server-side', '--validate=false', '-f', '-'], {
        ...{input: checked.stdout, reject: false},
      });
    const first = await apply();
    expect(first).toMatchObject({exitCode: 0, stderr: ''});
    const lines = first.stdout.split('\n');
    expect(lines[0]).toBe(`cluster${kind.toLowerCase()}.${apiVersion.split('/')[0]}/svc-trace serverside-applied`);
    expect(lines.length).toBe(server.applied.size);
    const shop = server.applied.get(`/apis/${apiVersion}/namespaces/shop/${plural}/svc-trace`);
    const [loudest] = (shop as unknown as {readonly results: readonly unknown[]}).results;
    expect(loudest).toMatchObject({policy: 'ST202', result: 'fail', resources: [{kind: 'Service', name: 'web'}]});
    const before = [...server.applied.keys()];
    expect((await apply()).exitCode).toBe(0);
    expect([...server.applied.keys()]).toEqual(before);
  });
});

function checkArgs(format: string): readonly string[] {
  return ['check', '-A', '--from', capturePath('faults/missing-endpoint'), '-o', format];
}

test('what docs/dev/formats.md shows deletes the Reports of namespaces that the last run did not write, and no others', async () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/dev/formats.md'), 'utf8');
  const script = /^ {2}```sh\n([\s\S]*?)^ {2}```$/m.exec(page)?.[1] ?? '';
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-prune-'));
  try {
    const {stdout} = await execa(process.execPath, [executable, ...checkArgs('openreports')], {reject: false});
    writeFileSync(join(folder, 'reports.yaml'), stdout);
    const fake = '#!/bin/sh\nif [ "$1" = get ]; then printf "old\\nshop\\ndefault\\n"; else echo "$@" >> deleted; fi\n';
    writeFileSync(join(folder, 'kubectl'), fake, {mode: 0o755});
    await execa('sh', ['-ec', script], {cwd: folder, env: {PATH: `${folder}:${process.env['PATH']}`}});
    expect(readFileSync(join(folder, 'deleted'), 'utf8')).toBe('delete reports.openreports.io -n old svc-trace\n');
  } finally {
    rmSync(folder, {recursive: true});
  }
});
