import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {loadAll} from 'js-yaml';
import {describe, expect, test} from 'vitest';
import {testWith} from '../require.ts';
import type {AppliedObject} from './apply-server.ts';
import {built, overlays} from './overlays.ts';
import {schemaErrors} from './schema.ts';

const docs = join(import.meta.dirname, '../../docs');

function objectsIn(folder: string): readonly AppliedObject[] {
  return readdirSync(join(docs, folder))
    .filter(name => name.endsWith('.yaml'))
    .flatMap(name => loadAll(readFileSync(join(docs, folder, name), 'utf8')) as readonly AppliedObject[]);
}

/** Argo's and Flagger's kinds are not among those of Kubernetes. */
function isOfKubernetes({apiVersion = ''}: AppliedObject): boolean {
  return apiVersion === 'v1' || /^(?:apps|batch|policy)\/|\.k8s\.io\//.test(apiVersion);
}

const pod = {apiVersion: 'v1', kind: 'Pod', metadata: {name: 'web'}};

describe('the validation', () => {
  test('reports unknown fields, missing fields, and fields of another type', async () => {
    const objects = [
      {...pod, spec: {containers: [{name: 'a', image: 'b'}]}},
      {...pod, spec: {containers: [], hostNetwrok: true}},
      {...pod, spec: {containers: [{image: 'b'}]}},
      {...pod, spec: {containers: [{name: 'a', securityContext: {readOnlyRootFilesystem: 'yes'}}]}},
    ];
    const [unknown, missing, mistyped, ...others] = await schemaErrors(objects);
    expect(unknown).toContain(`'"hostNetwrok"' does not exist in type 'IPodSpec'`);
    expect(missing).toContain(`Property '"name"' is missing`);
    expect(mistyped).toContain(`Type 'string' is not assignable to type 'boolean | undefined'`);
    expect(others).toEqual([]);
  });
});

describe('objects match the OpenAPI schema of their kind', () => {
  for (const [name, overlay] of Object.entries(overlays)) {
    testWith(['kubectl'], `deploy: ${name}`, async () => {
      const objects = await built(overlay);
      expect(objects.length).toBeGreaterThan(5);
      expect(await schemaErrors(objects)).toEqual([]);
    });
  }

  test.each(['ci', 'rbac'])('docs/%s', async folder => {
    const objects = objectsIn(folder).filter(isOfKubernetes);
    expect(objects.length).toBeGreaterThan(3);
    expect(await schemaErrors(objects)).toEqual([]);
  });
});
