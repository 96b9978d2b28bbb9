import {cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {checkPackage, createPackageFromTarballData} from '@arethetypeswrong/core';
import {execa} from 'execa';
import {publint} from 'publint';
import {formatMessage} from 'publint/utils';
import {create, extract} from 'tar';
import {afterAll, beforeAll, expect, test} from 'vitest';
import packageJson from '../../package.json' with {type: 'json'};
import {packNpm} from '../../tools/release/npm-package.ts';
import {codeBlocksOf} from '../doc-pages.ts';
import {capturePath} from '../fixtures.ts';

const root = join(import.meta.dirname, '../..');
const captured = capturePath('faults/missing-endpoint');

/** A project that has the package installed, and no other. */
let folder: string;
let installed: string;
let tarball: Buffer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-trace-npm-package-'));
  installed = join(folder, 'node_modules/kubectl-svc-trace');
  packNpm(folder);
  const archive = join(folder, `kubectl-svc-trace-${packageJson.version}.tgz`);
  tarball = readFileSync(archive);
  cpSync(captured, join(folder, 'bundle'), {recursive: true});
  await create({cwd: captured, file: join(folder, 'bundle.tgz'), gzip: true}, ['api', 'nodes']);
  await extract({file: archive, cwd: folder});
  cpSync(join(folder, 'package'), installed, {recursive: true});
});

afterAll(() => rmSync(folder, {recursive: true}));

/** Node.js runs it as it is, once its types are right. */
async function compile(source: string): Promise<string> {
  writeFileSync(join(folder, 'use.mts'), source);
  const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')];
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const args = [tsc, '--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', ...types, 'use.mts'];
  return (await execa(process.execPath, args, {cwd: folder, reject: false})).stdout;
}

test('the npm package has under 200 files, under 6 MB, and one file of types that is under 64 KiB', () => {
  const files = readdirSync(installed, {recursive: true, withFileTypes: true}).filter(entry => entry.isFile());
  const sizes = files.map(({parentPath, name}) => statSync(join(parentPath, name)).size);
  expect(files.length).toBeLessThan(200);
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(6_000_000);
  expect(files.filter(({name}) => name.endsWith('.d.ts')).map(({name}) => name)).toEqual(['index.d.ts']);
  expect(statSync(join(installed, 'dist/index.d.ts')).size).toBeLessThan(64 * 1024);
});

test('publint has nothing to say about package.json', async () => {
  const {messages} = await publint({pkgDir: installed, pack: false, strict: true});
  const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
  expect(messages.map(message => formatMessage(message, manifest, {color: false}))).toEqual([]);
});

test('the types are found by every resolution of an ES module', async () => {
  const result = await checkPackage(createPackageFromTarballData(new Uint8Array(tarball)), {entrypoints: ['.']});
  if (!result.types) throw new Error('the package has no types');
  // CommonJS gets the ES module by require(), from Node.js 22.12 on; resolution without "exports" is of before Node.js 12.7.
  const problems = result.problems.filter(({kind}) => kind !== 'CJSResolvesToESM');
  expect(problems).toEqual([expect.objectContaining({kind: 'NoResolution', resolutionKind: 'node10'})]);
});

test('the types import no other package, and know the fields of API objects', async () => {
  expect(readFileSync(join(installed, 'dist/index.d.ts'), 'utf8')).not.toMatch(/\b(?:from|import\()\s*['"](?!node:)/);
  const errors = await compile(`import type {Snapshot} from 'kubectl-svc-trace';
    type Service = NonNullable<Snapshot['api']['services']>[number];
    const port: number | undefined = ({} as Service).spec?.ports?.[0]?.nodePort;
    const created: string | undefined = ({} as Service).metadata.creationTimestamp;
    // @ts-expect-error a Service has no such field
    ({} as Service).spec?.nonsense;
    console.log(port, created);`);
  expect(errors).toBe('');
});

const blocks = codeBlocksOf('docs/dev/library.md');
const examples = blocks.flatMap(({language, text}, index) => (language === 'ts' ? [[text, blocks[index + 1]?.text] as const] : []));

test('docs/dev/library.md has two examples', () => expect(examples).toHaveLength(2));

test.each(examples)('an example of docs/dev/library.md has right types, and prints what the page shows', async (source, shown) => {
  expect(await compile(source)).toBe('');
  expect(`${(await execa(process.execPath, ['use.mts'], {cwd: folder})).stdout}\n`).toBe(shown);
});
