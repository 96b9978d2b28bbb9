import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';

const models = join(import.meta.dirname, '../node_modules/@kubernetes/client-node/dist/gen/models');

/**
 * Puts the types that `src/model/api-objects.ts` takes from client-node beside its declarations in `folder`, as the published package
 * installs no other: every model that is reached, as an interface of its fields, without the descriptions, in one file.
 */
export function includeClientTypes(folder: string): void {
  const declarations = join(folder, 'model/api-objects.d.ts');
  const text = readFileSync(declarations, 'utf8');
  const [statement, names = ''] = /import type \{([^}]+)\} from '@kubernetes\/client-node';/.exec(text) ?? [];
  if (statement === undefined) throw new Error(`${declarations} imports nothing from @kubernetes/client-node`);
  const roots = names.split(',').map(name => name.trim());
  writeFileSync(join(folder, 'model/client-types.d.ts'), `${header}${modelTexts(roots.filter(name => name !== '')).join('')}`);
  writeFileSync(declarations, text.replace(statement, statement.replace('@kubernetes/client-node', './client-types.js')));
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
