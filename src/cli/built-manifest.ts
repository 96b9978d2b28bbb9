import {readFileSync} from 'node:fs';
import process from 'node:process';
import type {Interfaces} from '@oclif/core';
import {packageFile} from './package-file.ts';

/** False when running from sources, where a list written by the build could hide a new command or flag. */
export const isBuilt = !import.meta.filename?.endsWith('.ts');

/**
 * What the build (tools/build.ts) recorded about the commands: everything that help, completion and parsing need, without loading a
 * command.
 */
export function builtManifest(): Interfaces.Manifest {
  return JSON.parse(packageFile('dist/oclif.manifest.json'));
}

/** The `package.json` of the program in this folder. */
export function packageJson(root: string): Interfaces.PJSON {
  return JSON.parse(isBuilt ? packageFile('package.json') : readFileSync(`${root}/package.json`, 'utf8'));
}

/** The version of the program in this folder, and what it runs on: `kubectl-svc-trace/1.2.3 linux-x64 node-v24.21.0`. */
export function versionText(root: string): string {
  const {name, version} = packageJson(root);
  return `${name}/${version} ${process.platform}-${process.arch} node-${process.version}`;
}
