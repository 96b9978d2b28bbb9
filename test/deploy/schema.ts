import {mkdtempSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execa} from 'execa';
import type {AppliedObject} from './apply-server.ts';

const modules = join(import.meta.dirname, '../../node_modules');

/** Where the types of an API's objects are; all but that of the operator are made of Kubernetes' own OpenAPI documents. */
function packageOf(apiVersion: string): string {
  return apiVersion.startsWith('monitoring.coreos.com/')
    ? `@kubernetes-models/prometheus-operator/${apiVersion}`
    : `kubernetes-models/${apiVersion}`;
}

/**
 * What is wrong with objects by the OpenAPI schema of their kinds: fields that there are not, that are missing, or of another type, each
 * with the name of its object. TypeScript's compiler looks: unlike a JSON Schema of these kinds it finds misspelled fields too.
 */
export async function schemaErrors(objects: readonly AppliedObject[]): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-schema-'));
  try {
    symlinkSync(modules, join(folder, 'node_modules'));
    objects.forEach((object, index) => {
      const {apiVersion, kind} = object;
      const text = `import type {I${kind}} from '${packageOf(apiVersion)}';\nexport const object: I${kind} = ${JSON.stringify(object, null, 2)};\n`;
      writeFileSync(join(folder, `${index}.ts`), text);
    });
    const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2024'];
    const files = objects.map((_, index) => `${index}.ts`);
    const {stdout} = await execa(join(modules, '.bin/tsc'), [...options, ...files], {cwd: folder, reject: false});
    return stdout
      .split('\n')
      .filter(line => line !== '')
      .map(line => line.replace(/^(\d+)\.ts/, (_, index: string) => nameOf(objects[Number(index)])));
  } finally {
    rmSync(folder, {recursive: true});
  }
}

function nameOf(object: AppliedObject | undefined): string {
  return object === undefined ? '?' : `${object.kind} ${object.metadata.name}`;
}
