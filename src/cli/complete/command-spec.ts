import type {ArgumentParts, CommandParts, FlagParts} from '../command-parts.ts';
import {builtManifest, isBuilt} from '../built-manifest.ts';

/** What completion needs to know about a command. */
export interface CommandSpec extends CommandParts<FlagSpec, ArgumentParts> {
  readonly hidden?: boolean | undefined;
}

export interface FlagSpec extends FlagParts {
  readonly multiple?: boolean | undefined;
}

/** The commands of the package in this folder. A build has recorded them; from sources they are all loaded. */
export async function commandSpecs(root: string): Promise<readonly CommandSpec[]> {
  if (isBuilt) return Object.values(builtManifest().commands) as readonly CommandSpec[];
  const {Config, settings} = await import('@oclif/core');
  const {oclifOptions} = await import('../oclif-options.ts');
  settings.enableAutoTranspile = false;
  return (await Config.load(await oclifOptions(root))).commands as readonly CommandSpec[];
}
