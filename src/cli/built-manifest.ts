import type {Interfaces} from '@oclif/core';
import {packageFile} from './package-file.ts';

/** False when this runs from its sources, where a list written down by the build could hide a new command or flag. */
export const isBuilt = !import.meta.filename?.endsWith('.ts');

/** What the build (tools/build.ts) wrote down of the commands: all that help, completion and parsing need, without loading one of them. */
export function builtManifest(): Interfaces.Manifest {
  return JSON.parse(packageFile('dist/oclif.manifest.json'));
}
