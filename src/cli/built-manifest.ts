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
