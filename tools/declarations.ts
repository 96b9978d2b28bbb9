import {spawnSync} from 'node:child_process';
import {readFileSync, rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {build} from 'rolldown';
import {dts} from 'rolldown-plugin-dts';

const root = join(import.meta.dirname, '..');
const models = join(root, 'node_modules/@kubernetes/client-node/dist/gen/models');

/**
 * Checks the types of `src`, and writes those of the library to `index.d.ts` in `folder`: one file that imports no package, as the published
 * one installs no other. Returns the exit code of the compiler.
 */
export async function declarations(folder: string): Promise<number> {
  const types = join(folder, 'types');
  const args = [join(root, 'node_modules/typescript/bin/tsc'), '--project', root, '--emitDeclarationOnly', '--outDir', types];
  const tsc = spawnSync(process.execPath, args, {stdio: 'inherit'});
  if (tsc.error) throw tsc.error;
  if (tsc.status !== 0) return tsc.status ?? 1;
  includeClientTypes(types);
  const plugins = dts({dtsInput: true, tsconfig: false, generator: 'oxc', cwd: types});
  await build({input: join(types, 'index.d.ts'), plugins, logLevel: 'warn', output: {dir: folder}});
  rmSync(types, {recursive: true});
  return 0;
}

/**
 * Puts the types that `src/model/api-objects.ts` takes from client-node beside its declarations: every model that is reached, as an
 * interface of its fields, without the descriptions, in one file.
 */
function includeClientTypes(types: string): void {
  const file = join(types, 'model/api-objects.d.ts');
  const text = readFileSync(file, 'utf8');
  const [statement, names = ''] = /import type \{([^}]+)\} from '@kubernetes\/client-node';/.exec(text) ?? [];
  if (statement === undefined) throw new Error(`${file} imports nothing from @kubernetes/client-node`);
  const used = names.split(',').map(name => name.trim());
  writeFileSync(join(types, 'model/client-types.d.ts'), `${header}${modelTexts(used.filter(name => name !== '')).join('')}`);
  writeFileSync(file, text.replace(statement, statement.replace('@kubernetes/client-node', './client-types.js')));
}

const header = `// From @kubernetes/client-node, Apache License 2.0, The Kubernetes Authors.
export type IntOrString = number | string;
`;

/** In the order of their names. */
function modelTexts(roots: readonly string[]): readonly string[] {
  const texts = new Map<string, string>();
  const reach = (name: string): void => {
    if (texts.has(name)) return;
    const source = readFileSync(join(models, `${name}.d.ts`), 'utf8');
    texts.set(name, interfaceText(name, source));
    for (const [, other = ''] of source.matchAll(/from '\.\.\/models\/(\w+)\.js'/g)) reach(other);
  };
  for (const name of roots) reach(name);
  return [...texts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, text]) => text);
}

/** The fields go before all that is static. */
function interfaceText(name: string, source: string): string {
  const [, fields] = new RegExp(`export declare class ${name} \\{\\n([\\s\\S]*?)    static readonly discriminator`).exec(source) ?? [];
  if (fields === undefined) throw new Error(`the model ${name} of @kubernetes/client-node is not a class as the others are`);
  return `export interface ${name} {\n${fields.replace(/ *\/\*\*[\s\S]*?\*\/\n/g, '')}}\n`;
}
