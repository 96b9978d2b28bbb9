import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import type {Metafile} from 'esbuild';
import {root} from './run.ts';

/** The folders of all packages that went into the bundle, from the root of the project. dist/ must have been built. */
export function bundledPackages(): readonly string[] {
  const {inputs} = JSON.parse(readFileSync(join(root, 'dist/metafile.json'), 'utf8')) as Metafile;
  return [...new Set(Object.keys(inputs).flatMap(path => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path) ?? []))].sort();
}
