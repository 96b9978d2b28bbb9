import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import type {Metafile} from 'esbuild';
import {root} from './run.ts';

/** The folders of all packages that went into a bundle, by default dist/, from the root of the project. */
export function bundledPackages({inputs} = builtProgram()): readonly string[] {
  return [...new Set(Object.keys(inputs).flatMap(path => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path) ?? []))].sort();
}

/** dist/ must have been built. */
function builtProgram(): Pick<Metafile, 'inputs'> {
  return JSON.parse(readFileSync(join(root, 'dist/metafile.json'), 'utf8')) as Metafile;
}
