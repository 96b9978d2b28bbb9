import {cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {execa} from 'execa';
import {afterEach, expect, test} from 'vitest';

const root = join(import.meta.dirname, '..');
const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, {recursive: true});
});

test('the sources keep to their layers', async () => {
  expect(await violations(root)).toEqual([]);
});

test.each([
  ['a module of Node', 'src/trace/planted.ts', "import {readFileSync} from 'node:fs';", 'core-touches-nothing-outside'],
  ['oclif', 'src/checks/planted.ts', "import {Command} from '@oclif/core';", 'core-uses-only-packages-that-compute'],
  ['the client', 'src/model/planted.ts', "import {KubeConfig} from '@kubernetes/client-node';", 'model-takes-only-types-from-the-client'],
  [
    'a module of the client',
    'src/model/planted.ts',
    "import {KubeConfig} from '@kubernetes/client-node/dist/config.js';",
    'model-takes-only-types-from-the-client',
  ],
  [
    'types of the client past src/model',
    'src/expect/planted.ts',
    "import type {V1Pod} from '@kubernetes/client-node';",
    'core-uses-only-packages-that-compute',
  ],
  ['execa', 'src/model/planted.ts', "import type {Options} from 'execa';", 'model-uses-only-packages-that-compute'],
  ['execa', 'src/render/planted.ts', "import {execa} from 'execa';", 'core-uses-only-packages-that-compute'],
  ['a command', 'src/render/planted.ts', "import {x} from '../cli/target.ts';", 'render-imports-only-what-is-below-it'],
  ['a collector', 'src/analyze/planted.ts', "import {x} from '../collect/target.ts';", 'analyze-imports-only-what-is-below-it'],
  ['the pipeline', 'src/checks/planted.ts', "import {x} from '../diagnose.ts';", 'checks-imports-only-what-is-below-it'],
  ['a higher layer', 'src/parse/planted.ts', "import {x} from '../compare/target.ts';", 'parse-imports-only-what-is-below-it'],
  ['a neighbor', 'src/trace/planted.ts', "import {x} from '../compare/target.ts';", 'trace-imports-only-what-is-below-it'],
  [
    'only a type of a higher layer',
    'src/model/planted.ts',
    "import type {x} from '../parse/target.ts';",
    'model-imports-only-what-is-below-it',
  ],
])('a core file that imports %s is caught', async (_, file, line, rule) => {
  expect(await violations(planted({[file]: line}))).toContainEqual(expect.objectContaining({from: file, rule}));
});

test.each([
  ['collecting', 'a run', 'src/collect/planted.ts', "import {x} from '../run/target.ts';", 'collect-imports-only-what-is-below-it'],
  ['a run', 'a command', 'src/run/planted.ts', "import type {x} from '../cli/target.ts';", 'run-imports-only-what-is-below-it'],
  ['a run', 'the agent', 'src/run/planted.ts', "import {x} from '../agent/target.ts';", 'run-imports-only-what-is-below-it'],
  ['the agent', 'a command', 'src/agent/planted.ts', "import {x} from '../cli/target.ts';", 'agent-imports-only-what-is-below-it'],
])('a file of %s that imports %s is caught', async (_from, _to, file, line, rule) => {
  expect(await violations(planted({[file]: line}))).toContainEqual(expect.objectContaining({from: file, rule}));
});

test('two files that import only types of each other are caught', async () => {
  const sources = planted({
    'src/parse/one.ts': "import type {Two} from './two.ts';\nexport type One = Two | 1;",
    'src/parse/two.ts': "import type {One} from './one.ts';\nexport type Two = One | 2;",
  });
  expect(await violations(sources)).toContainEqual(expect.objectContaining({rule: 'no-circles'}));
});

test('no folder of the sources holds more than 25 files of its own', () => {
  const folders = readdirSync(join(root, 'src'), {recursive: true, withFileTypes: true}).filter(entry => entry.isFile());
  const counts = Map.groupBy(folders, ({parentPath}) => parentPath);
  const crowded = [...counts].flatMap(([folder, files]) => (files.length > 25 ? [`${folder}: ${files.length}`] : []));
  expect(crowded).toEqual([]);
});

test('two files that import each other are caught', async () => {
  const sources = planted({
    'src/parse/one.ts': "import {two} from './two.ts';\nexport const one = () => two;",
    'src/parse/two.ts': "import {one} from './one.ts';\nexport const two = () => one;",
  });
  expect(await violations(sources)).toContainEqual(expect.objectContaining({rule: 'no-circles'}));
});

test('src/model may import types of the client, and no value', async () => {
  const installed = {
    'package.json': '{"type": "module", "dependencies": {"@kubernetes/client-node": "*"}}',
    'node_modules/@kubernetes/client-node/package.json': '{"name": "@kubernetes/client-node", "main": "index.js"}',
    'node_modules/@kubernetes/client-node/index.js': 'export class V1Pod {}',
  };
  const types = {'src/model/planted.ts': "import type {V1Pod} from '@kubernetes/client-node';"};
  expect(await violations(planted({...installed, ...types}))).toEqual([]);
  const value = {'src/model/planted.ts': "import {V1Pod} from '@kubernetes/client-node';\nexport const pod = new V1Pod();"};
  expect(await violations(planted({...installed, ...value}))).toMatchObject([{rule: 'model-takes-only-types-from-the-client'}]);
});

test('a core file may import the layers below it and node:crypto', async () => {
  const sources = planted({
    'src/checks/planted.ts':
      "import {createHash} from 'node:crypto';\nimport {x} from '../compare/target.ts';\nimport type {y} from '../analyze/target.ts';",
  });
  expect(await violations(sources)).toEqual([]);
});

test.each([
  ['the time', 'export const now = () => Date.now();'],
  ['the date', 'export const now = () => new Date();'],
  ['chance', 'export const any = () => Math.random();'],
  ['the environment', "export const home = () => process.env['HOME'];"],
  ['the console', 'export const say = () => console.log();'],
])('a core file that uses %s is caught, a collector is not', async (_, line) => {
  const sources = planted({'src/trace/core.ts': line, 'src/collect/edge.ts': line});
  for (const file of ['biome.json', 'tools/pure-core.grit']) cpSync(join(root, file), join(sources, file));
  const lint = execa({cwd: sources, preferLocal: true, localDir: root, reject: false});
  expect(await lint('biome', ['lint', 'src/trace/core.ts'])).toMatchObject({exitCode: 1, stderr: expect.stringContaining('core')});
  expect(await lint('biome', ['lint', 'src/collect/edge.ts'])).toMatchObject({exitCode: 0});
});

/** A project of its own with these files, and one file to import in every folder that is spoken of. */
function planted(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-layers-'));
  folders.push(folder);
  const targets = ['parse', 'compare', 'analyze', 'collect', 'run', 'agent', 'cli'].map(name => [
    `src/${name}/target.ts`,
    'export const x = 1;',
  ]);
  for (const [file, text] of Object.entries({...Object.fromEntries(targets), 'src/diagnose.ts': 'export const x = 1;', ...files})) {
    mkdirSync(join(folder, dirname(file)), {recursive: true});
    writeFileSync(join(folder, file), `${text}\n`);
  }
  return folder;
}

async function violations(project: string): Promise<{rule: string; from: string; to: string}[]> {
  const cruise = execa({cwd: project, preferLocal: true, localDir: root, reject: false});
  // The exit code counts the violations; the output names them.
  const {stdout} = await cruise('depcruise', ['src', '--config', join(root, '.dependency-cruiser.js'), '--output-type', 'json']);
  const found: {rule: {name: string}; from: string; to: string}[] = JSON.parse(stdout).summary.violations;
  return found.map(({rule, from, to}) => ({rule: rule.name, from, to}));
}
