import {builtManifest, isBuilt} from '../built-manifest.ts';

/** What completion and help need to know about a command: a part of oclif's data. */
export interface CommandSpec {
  readonly id: string;
  readonly summary?: string | undefined;
  readonly description?: string | undefined;
  readonly examples?: readonly unknown[] | undefined;
  readonly hidden?: boolean | undefined;
  readonly flags: Readonly<Record<string, FlagSpec>>;
  readonly args?: Readonly<Record<string, ArgumentSpec>> | undefined;
  /** False if more arguments may follow than are named. */
  readonly strict?: boolean | undefined;
}

export interface ArgumentSpec {
  readonly name: string;
  readonly description?: string | undefined;
  readonly options?: readonly string[] | undefined;
  readonly required?: boolean | undefined;
}

export interface FlagSpec extends ArgumentSpec {
  readonly char?: string | undefined;
  readonly type: 'option' | 'boolean';
  readonly allowNo?: boolean | undefined;
  readonly helpValue?: string | readonly string[] | undefined;
  readonly hidden?: boolean | undefined;
  readonly multiple?: boolean | undefined;
  readonly default?: unknown;
  readonly helpGroup?: string | undefined;
}

/** The commands of the package in this folder. A build has recorded them; from sources they are all loaded. */
export async function commandSpecs(root: string): Promise<readonly CommandSpec[]> {
  if (isBuilt) return Object.values(builtManifest().commands) as readonly CommandSpec[];
  const {Config, settings} = await import('@oclif/core');
  const {oclifOptions} = await import('../oclif-options.ts');
  settings.enableAutoTranspile = false;
  return (await Config.load(await oclifOptions(root))).commands as readonly CommandSpec[];
}
