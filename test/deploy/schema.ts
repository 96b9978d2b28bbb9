import {mkdtempSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execa} from 'execa';
import type {AppliedObject} from './apply-server.ts';

const modules = join(import.meta.dirname, '../../node_modules');

/**
 * What is wrong with objects by the OpenAPI schema of their kinds: fields that there are not, that are missing, or of another type, each
 * with the name of its object. TypeScript's compiler looks: unlike a JSON Schema of these kinds it finds misspelled fields too.
 */
export function schemaErrors(objects: readonly AppliedObject[]): Promise<readonly string[]> {
  return typeErrors(
    objects.map(object => {
      const {apiVersion, kind, metadata} = object;
      return {name: `${kind} ${metadata.name}`, from: packageOf(apiVersion), type: `I${kind}`, object};
    }),
  );
}

/** Where the types of an API's objects are; all but that of the operator are made of Kubernetes' own OpenAPI documents. */
function packageOf(apiVersion: string): string {
  return apiVersion.startsWith('monitoring.coreos.com/')
    ? `@kubernetes-models/prometheus-operator/${apiVersion}`
    : `kubernetes-models/${apiVersion}`;
}

export interface Typed {
  /** For what is wrong with it. */
  readonly name: string;
  /** The module that exports the type. */
  readonly from: string;
  readonly type: string;
  readonly object: object;
  /** Enumerations are given by their values, as in JSON. */
  readonly isJson?: boolean;
}

/** What TypeScript's compiler says of objects of these types. */
export async function typeErrors(typed: readonly Typed[]): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-schema-'));
  try {
    symlinkSync(modules, join(folder, 'node_modules'));
    typed.forEach((one, index) => {
      writeFileSync(join(folder, `${index}.ts`), textOf(one));
    });
    const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2024'];
    const files = typed.map((_, index) => `${index}.ts`);
    const {stdout} = await execa(join(modules, '.bin/tsc'), [...options, ...files], {cwd: folder, reject: false});
    return stdout
      .split('\n')
      .filter(line => line !== '')
      .map(line => line.replace(/^(\d+)\.ts/, (_, index: string) => typed[Number(index)]?.name ?? '?'));
  } finally {
    rmSync(folder, {recursive: true});
  }
}

function textOf({from, type, object, isJson = false}: Typed): string {
  return [
    `import type {${type}} from '${from}';`,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is a template literal type
    'type Plain<T> = T extends string ? `${T}` : T extends object ? {[K in keyof T]: Plain<T[K]>} : T;',
    `export const object: ${isJson ? `Plain<${type}>` : type} = ${JSON.stringify(object, null, 2)};`,
  ].join('\n');
}
