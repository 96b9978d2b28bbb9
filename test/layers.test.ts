import {cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {execa} from 'execa';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {edgeLayers, layers} from '../.dependency-cruiser.js';
import {architecturePage, withLayers} from '../tools/layers.ts';

const root = join(import.meta.dirname, '..');
const folders: string[] = [];

afterAll(() => {
  for (const folder of folders) rmSync(folder, {recursive: true});
});

test('the page on the architecture has the layers that the linter checks, which are all folders of the sources', () => {
  const page = readFileSync(architecturePage, 'utf8');
  expect(page).toBe(withLayers(page));
  const folders = readdirSync(join(root, 'src'), {withFileTypes: true}).flatMap(entry => (entry.isDirectory() ? [entry.name] : []));
  expect(Object.keys({...layers, ...edgeLayers}).toSorted()).toEqual(folders.toSorted());
});

test('the linter of style knows the same folders as the core', () => {
  const {overrides} = JSON.parse(readFileSync(join(root, 'biome.json'), 'utf8')) as {overrides: readonly {includes: readonly string[]}[]};
  expect(overrides[0]?.includes).toEqual([`src/{${Object.keys(layers).join(',')}}/**`]);
});

/** Imports that break a rule, each in a file of its own. */
const forbidden: readonly (readonly [what: string, folder: string, line: string, rule: string])[] = [
  ['a module of Node', 'src/trace', "import {readFileSync} from 'node:fs';", 'core-touches-nothing-outside'],
  ['oclif', 'src/checks', "import {Command} from '@oclif/core';", 'core-uses-only-packages-that-compute'],
  ['the client', 'src/model', "import {KubeConfig} from '@kubernetes/client-node';", 'model-takes-only-types-from-the-client'],
  [
    'a module of the client',
    'src/model',
    "import {KubeConfig} from '@kubernetes/client-node/dist/config.js';",
    'model-takes-only-types-from-the-client',
  ],
  [
    'types of the client outside src/model',
    'src/expect',
    "import type {V1Pod} from '@kubernetes/client-node';",
    'core-uses-only-packages-that-compute',
  ],
  ['types of execa', 'src/model', "import type {Options} from 'execa';", 'model-uses-only-packages-that-compute'],
  ['execa', 'src/render', "import {execa} from 'execa';", 'core-uses-only-packages-that-compute'],
  ['a command', 'src/render', "import {x} from '../cli/target.ts';", 'render-imports-only-what-is-below-it'],
  ['a collector', 'src/analyze', "import {x} from '../collect/target.ts';", 'analyze-imports-only-what-is-below-it'],
  ['the pipeline', 'src/checks', "import {x} from '../diagnose.ts';", 'checks-imports-only-what-is-below-it'],
  ['a higher layer', 'src/parse', "import {x} from '../compare/target.ts';", 'parse-imports-only-what-is-below-it'],
  ['a neighbor', 'src/trace', "import {x} from '../compare/target.ts';", 'trace-imports-only-what-is-below-it'],
  ['only a type of a higher layer', 'src/model', "import type {x} from '../parse/target.ts';", 'model-imports-only-what-is-below-it'],
  ['a run', 'src/collect', "import {x} from '../run/target.ts';", 'collect-imports-only-what-is-below-it'],
  ['only a type of a command', 'src/run', "import type {x} from '../cli/target.ts';", 'run-imports-only-what-is-below-it'],
  ['a feature', 'src/run', "import {x} from '../redact/target.ts';", 'redact-is-a-feature-by-itself'],
  ['another feature', 'src/run/preview', "import {x} from '../watch/target.ts';", 'watch-is-a-feature-by-itself'],
  ['the agent', 'src/run', "import {x} from '../agent/target.ts';", 'run-imports-only-what-is-below-it'],
  ['a command', 'src/agent', "import {x} from '../cli/target.ts';", 'agent-imports-only-what-is-below-it'],
];

describe('the linter reports', () => {
  // One run over all of them, as each run takes half a second.
  const files = forbidden.map(([, folder, line], index) => [`${folder}/planted-${index}.ts`, line]);
  const circles = {
    'src/parse/one.ts': "import {two} from './two.ts';\nexport const one = () => two;",
    'src/parse/two.ts': "import {one} from './one.ts';\nexport const two = () => one;",
    'src/parse/types-one.ts': "import type {Two} from './types-two.ts';\nexport type One = Two | 1;",
    'src/parse/types-two.ts': "import type {One} from './types-one.ts';\nexport type Two = One | 2;",
  };
  let found: readonly Violation[];
  beforeAll(async () => {
    found = await violations(planted({...Object.fromEntries(files), ...circles}));
  });

  test.each(forbidden.map((row, index) => [row[1], row[0], row[3], `${row[1]}/planted-${index}.ts`] as const))(
    'a file of %s that imports %s',
    (_folder, _what, rule, file) => {
      expect(found).toContainEqual(expect.objectContaining({from: file, rule}));
    },
  );

  test('two files that import each other', () => {
    expect(found).toContainEqual(expect.objectContaining({from: 'src/parse/one.ts', rule: 'no-circles'}));
  });

  test('two files that import only types of each other', () => {
    expect(found).toContainEqual(expect.objectContaining({from: 'src/parse/types-one.ts', rule: 'no-circles'}));
  });
});

test('no folder of the sources contains more than 25 files', () => {
  const folders = readdirSync(join(root, 'src'), {recursive: true, withFileTypes: true}).filter(entry => entry.isFile());
  const counts = Map.groupBy(folders, ({parentPath}) => parentPath);
  const crowded = [...counts].flatMap(([folder, files]) => (files.length > 25 ? [`${folder}: ${files.length}`] : []));
  expect(crowded).toEqual([]);
});

test('src/model may import only types from the client', async () => {
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

describe('the linter accepts in a collector, and reports in a core file,', () => {
  let sources: string;
  beforeAll(() => {
    sources = planted({'src/trace/core.ts': '', 'src/collect/edge.ts': ''});
    for (const file of ['biome.json', 'tools/pure-core.grit']) cpSync(join(root, file), join(sources, file));
  });

  test.each([
    ['the time', 'export const now = () => Date.now();'],
    ['the date', 'export const now = () => new Date();'],
    ['a random number', 'export const any = () => Math.random();'],
    ['the environment', "export const home = () => process.env['HOME'];"],
    ['the console', 'export const say = () => console.log();'],
  ])('%s', async (_, line) => {
    for (const file of ['src/trace/core.ts', 'src/collect/edge.ts']) writeFileSync(join(sources, file), `${line}\n`);
    const lint = execa({cwd: sources, preferLocal: true, localDir: root, reject: false});
    expect(await lint('biome', ['lint', 'src/trace/core.ts'])).toMatchObject({exitCode: 1, stderr: expect.stringContaining('core')});
    expect(await lint('biome', ['lint', 'src/collect/edge.ts'])).toMatchObject({exitCode: 0});
  });
});

/** A project of its own with these files, and a file to import in each folder that the tests name. */
function planted(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-layers-'));
  folders.push(folder);
  const targets = ['parse', 'compare', 'analyze', 'redact', 'collect', 'run', 'run/watch', 'agent', 'cli'].map(name => [
    `src/${name}/target.ts`,
    'export const x = 1;',
  ]);
  for (const [file, text] of Object.entries({...Object.fromEntries(targets), 'src/diagnose.ts': 'export const x = 1;', ...files})) {
    mkdirSync(join(folder, dirname(file)), {recursive: true});
    writeFileSync(join(folder, file), `${text}\n`);
  }
  return folder;
}

interface Violation {
  readonly rule: string;
  readonly from: string;
  readonly to: string;
}

async function violations(project: string): Promise<readonly Violation[]> {
  const cruise = execa({cwd: project, preferLocal: true, localDir: root, reject: false});
  // The exit code counts the violations; the output names them.
  const {stdout} = await cruise('depcruise', ['src', '--config', join(root, '.dependency-cruiser.js'), '--output-type', 'json']);
  const found: readonly {rule: {name: string}; from: string; to: string}[] = JSON.parse(stdout).summary.violations;
  return found.map(({rule, from, to}) => ({rule: rule.name, from, to}));
}
