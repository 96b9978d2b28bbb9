import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {basename, dirname, join} from 'node:path';
import process from 'node:process';
import type {Metafile} from 'esbuild';
import {execa} from 'execa';
import {expect} from 'vitest';

const root = join(import.meta.dirname, '../..');
const recorder = join(import.meta.dirname, 'record-modules.mjs');

/** The packages that this command line of the built program loads, by name, with `node_modules` left out; `files` are the built files. */
export interface Loaded {
  readonly packages: ReadonlySet<string>;
  readonly files: ReadonlySet<string>;
  /** Modules of Node.js itself, those that only it knows among them. */
  readonly builtins: ReadonlySet<string>;
}

/** Runs it to its end, and looks up in the bundler's own account which packages went into the files that Node.js loaded. */
export async function loadedBy(bin: 'run.js' | 'complete.js', args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-loaded-'));
  const list = join(folder, 'modules');
  try {
    const {stderr} = await execa(process.execPath, ['--import', recorder, join(root, 'bin', bin), ...args], {
      env: {...env, MODULE_LIST: list},
      reject: false,
      stdin: 'ignore',
    });
    expect(stderr).toBe('');
    return packagesIn(readFileSync(list, 'utf8').split('\n'));
  } finally {
    rmSync(folder, {recursive: true});
  }
}

function packagesIn(lines: readonly string[]): Loaded {
  const builtins = lines.flatMap(line => /^builtin (.*)/.exec(line)?.[1] ?? []);
  const modules = lines.filter(line => !line.startsWith('builtin '));
  const {outputs} = JSON.parse(readFileSync(join(root, 'dist/metafile.json'), 'utf8')) as Metafile;
  const contents = new Map(Object.entries(outputs).map(([path, {inputs}]) => [basename(path), inputs]));
  const files = new Set(modules.filter(file => dirname(file) === join(root, 'dist')).map(file => basename(file)));
  const inputs = [...files].flatMap(file => Object.entries(contents.get(file) ?? {}));
  const used = inputs.filter(([, {bytesInOutput}]) => bytesInOutput > 0).map(([path]) => packageOf(path));
  // What is not in the bundle is an input by itself.
  return {packages: new Set([...used, ...modules.map(packageOf)].filter(name => name !== '')), files, builtins: new Set(builtins)};
}

/** `@oclif/core` of `node_modules/@oclif/core/lib/index.js`; empty for a file of no package. */
function packageOf(path: string): string {
  return /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? '';
}
