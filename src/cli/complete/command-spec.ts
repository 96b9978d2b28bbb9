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

/** What completion and help both need to know about a flag: a part of oclif's data. */
export interface FlagParts {
  readonly name: string;
  readonly char?: string | undefined;
  readonly type: 'option' | 'boolean';
  readonly description?: string | undefined;
  readonly options?: readonly string[] | undefined;
  readonly allowNo?: boolean | undefined;
  readonly helpValue?: string | readonly string[] | undefined;
  readonly hidden?: boolean | undefined;
}

export interface ArgumentParts {
  readonly name: string;
  readonly options?: readonly string[] | undefined;
}

/** What both need to know about a command. */
export interface CommandParts<Flag extends FlagParts, Argument extends ArgumentParts> {
  readonly id: string;
  readonly summary?: string | undefined;
  readonly flags: Readonly<Record<string, Flag>>;
  readonly args?: Readonly<Record<string, Argument>> | undefined;
  /** False if more arguments may follow than are named. */
  readonly strict?: boolean | undefined;
}
