import {isAbsolute, join} from 'node:path';
import process from 'node:process';
import {readTextFile} from '../collect/text-file.ts';
import {isObject} from '../parse/attempt.ts';
import {errorText} from '../model/text.ts';
import {readFlags} from './command-line.ts';
import type {CommandSpec, FlagSpec} from './complete/command-spec.ts';
import {closest, wrongUse} from '../run/wrong-use.ts';

/**
 * The command line with the flags that the configuration file sets, after the command: those that the command has and the command line does
 * not. The file is that of SVC_TRACE_CONFIG, else `svc-trace/config.yaml` in XDG_CONFIG_HOME (`~/.config`), as of stern and k9s; its names
 * are those of flags. Names in the part of a command hold for it alone. Throws a CLIError (exit 2) for a file that cannot be used.
 */
export async function withConfig(args: readonly string[], specs: () => Promise<readonly CommandSpec[]>): Promise<readonly string[]> {
  const [id = '', ...rest] = args;
  const file = configPath();
  const text = file === null ? null : contentOf(file);
  if (file === null || text === null) return args;
  const commands = await specs();
  const command = commands.find(one => one.id === id);
  if (command === undefined) return args;
  // Most who run a command have no such file, and need no parser for it.
  const {readYaml} = await import('../parse/yaml-text.ts');
  const {common, own} = settingsOf(file, () => readYaml(text), {id, commands});
  const given = readFlags(rest, command.flags);
  const flags = Object.entries({...common, ...own}).flatMap(([name, value]) => {
    const flag = command.flags[name];
    return flag === undefined || flag === given.pending || given.flags.has(name) ? [] : wordsOf(flag, value, file);
  });
  return [id, ...flags, ...rest];
}

function configPath(): string | null {
  // os.homedir() throws for a user that the system does not know, as in a container.
  const {SVC_TRACE_CONFIG, XDG_CONFIG_HOME = '', HOME, USERPROFILE} = process.env;
  if (SVC_TRACE_CONFIG !== undefined) return SVC_TRACE_CONFIG === '' ? null : SVC_TRACE_CONFIG;
  const folder = isAbsolute(XDG_CONFIG_HOME) ? XDG_CONFIG_HOME : join(HOME ?? USERPROFILE ?? '', '.config');
  // A relative home would be the current folder, which may be anybody's.
  return isAbsolute(folder) ? join(folder, 'svc-trace', 'config.yaml') : null;
}

/** Null if there is no file, unless it was named. */
function contentOf(file: string): string | null {
  try {
    return readTextFile(file);
  } catch (error) {
    if (process.env['SVC_TRACE_CONFIG'] === undefined && ['ENOENT', 'ENOTDIR'].includes(String((error as NodeJS.ErrnoException).code)))
      return null;
    throw unusable(file, errorText(error));
  }
}

type Settings = Readonly<Record<string, unknown>>;

/** The settings of all commands and those of this one. */
function settingsOf(file: string, read: () => unknown, {id, commands}: {readonly id: string; readonly commands: readonly CommandSpec[]}) {
  const all = recordOf(file, parsed(file, read), 'the file');
  const isCommand = (name: string): boolean => commands.some(one => one.id === name && typeof all[name] === 'object');
  const known = new Set(commands.flatMap(({flags}) => Object.keys(flags)));
  const part = (settings: Settings): Settings => {
    const unknown = Object.keys(settings).find(name => !known.has(name));
    if (unknown === undefined) return settings;
    const [near] = closest(unknown, [...known]);
    throw unusable(file, `there is no flag --${unknown}${near === undefined ? '' : `; did you mean ${near}?`}`);
  };
  const own = Object.keys(all).filter(isCommand);
  const parts = new Map(own.map(name => [name, part(recordOf(file, all[name], name))]));
  return {common: part(Object.fromEntries(Object.entries(all).filter(([name]) => !own.includes(name)))), own: parts.get(id) ?? {}};
}

function parsed(file: string, read: () => unknown): unknown {
  try {
    return read() ?? {};
  } catch (error) {
    throw unusable(file, errorText(error));
  }
}

function recordOf(file: string, value: unknown, what: string): Settings {
  if (isObject(value)) return value;
  throw unusable(file, `${what} must have a line "flag: value" for each flag`);
}

/** The flag with its value as on the command line; once for each value of a list. */
function wordsOf(flag: FlagSpec, value: unknown, file: string): readonly string[] {
  const name = `--${flag.name}`;
  const isText = (one: unknown): one is string | number => typeof one === 'string' || typeof one === 'number';
  if (flag.type === 'boolean') {
    if (typeof value !== 'boolean') throw unusable(file, `${flag.name} must be true or false`);
    return value ? [name] : flag.allowNo === true ? [`--no-${flag.name}`] : [];
  }
  const values = Array.isArray(value) && flag.multiple === true ? (value as readonly unknown[]) : [value];
  if (!values.every(isText))
    throw unusable(file, `${flag.name} must be ${flag.multiple === true ? 'a value or a list of values' : 'a value'}`);
  return values.map(one => `${name}=${one}`);
}

function unusable(file: string, why: string): Error {
  return wrongUse(`cannot use the configuration file ${file}: ${why}`);
}
