import process from 'node:process';
import {stripVTControlCharacters} from 'node:util';
import {Errors, handle, run, settings} from '@oclif/core';
import {wrapLines} from '../render/renderer.ts';
import {type valueFlags, wordForCommand} from './command-line.ts';
import {commandSpecs} from './complete/command-spec.ts';
import {withConfig} from './config-file.ts';
import {oclifOptions} from './oclif-options.ts';
import {endOnWriteError} from './terminal.ts';
import {closest, wrongUse} from '../run/wrong-use.ts';

/** What an error message needs to know about the command line. */
interface CommandLine {
  /** What follows the executable's name. */
  readonly argv: readonly string[];
  readonly commands: readonly string[];
  readonly flagsWithValue: typeof valueFlags;
  readonly bin: string;
}

/** Runs the command at the beginning of the arguments, of the program in this folder. */
export async function runCommand(args: readonly string[], root: string): Promise<void> {
  // Node.js runs the sources directly; oclif must not look for a compiler.
  settings.enableAutoTranspile = false;
  // oclif's listener would throw what cannot be written, before debug pods are removed.
  process.stdout.removeAllListeners('error');
  endOnWriteError();
  const words = await withConfig(args, () => commandSpecs(root));
  // oclif reads the current command here.
  process.argv.splice(2, Infinity, ...words);
  await run([...words], await oclifOptions(root));
}

/** Prints the error and ends the process: wrong use in one or two lines, a bug with its stack. */
export async function endWith(error: unknown, {argv, commands, flagsWithValue, bin}: CommandLine): Promise<void> {
  if (!isWrongUse(error)) return handle(withExitCode(error));
  const word = wordForCommand(argv, commands, flagsWithValue);
  process.stderr.write(`${wrapLines(shortError(error, {word, commands, bin}), terminalWidth(process.stderr))}\n`);
  process.exit(error.oclif.exit);
}

export function unknownCommand(word: string, commands: readonly string[]): Error {
  return wrongUse(`unknown command "${word}"`, closest(word, commands));
}

/** Columns; without a terminal lines can have any length. */
function terminalWidth({isTTY, columns}: NodeJS.WriteStream): number {
  return isTTY ? (columns ?? 80) : Infinity;
}

/** An error with a message for the user; not the end of a command with an exit code. */
function isWrongUse(error: unknown): error is Error & {readonly oclif: {readonly exit: number}} {
  return error instanceof Errors.CLIError && !(error instanceof Errors.ExitError) && error.oclif.exit !== undefined;
}

/** An error without an exit code is a bug. It must not look like a finding (1), so it exits like a failed check (3). */
function withExitCode(thrown: unknown): Error {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  return 'oclif' in error ? error : Object.assign(error, {oclif: {exit: 3}});
}

/** The data that oclif's parser adds to an error about a flag or argument. */
interface ParseError extends Error {
  readonly suggestions?: readonly string[];
  /** Flags that do not exist. */
  readonly flags?: readonly string[];
  readonly oclif?: {readonly exit?: number};
  readonly parse?: {readonly input?: {readonly flags?: Readonly<Record<string, unknown>>}};
}

/** The words of the command line from which a suggestion is derived. */
interface GivenWords {
  /** The word in the position of a command that was taken for a Service; null if a command was given. */
  readonly word: string | null;
  readonly commands: readonly string[];
  readonly bin: string;
}

/** An error of wrong use in one or two lines: what is wrong, and a suggestion. */
export function shortError(error: ParseError, givenWords: GivenWords): string {
  const command = meantCommand(error, givenWords);
  if (command !== null && givenWords.word !== null)
    return `Error: unknown command or Service "${givenWords.word}". Did you mean \`${givenWords.bin} ${command}\`?`;
  const known = Object.keys(error.parse?.input?.flags ?? {}).map(name => `--${name}`);
  const meant = (error.flags ?? []).flatMap(flag => closest(flag.replace(/=.*/s, ''), known));
  if (error.flags?.includes('-w')) return `Error: unknown flag -w. Did you mean \`${givenWords.bin} watch\`?`;
  const suggestions = meant.length > 0 ? meant : (error.suggestions ?? []);
  const hint = suggestions.length === 0 ? '' : `${/[.?]$/.test(error.message) ? '' : '.'} Did you mean ${suggestions.join(', ')}?`;
  return `Error: ${plainMessage(error.message)}${hint}`;
}

/** The command closest to a mistyped first word; null if none is close. */
function meantCommand(error: Error, {word, commands}: Pick<GivenWords, 'word' | 'commands'>): string | null {
  const {oclif} = error as ParseError;
  return word === null || oclif?.exit !== 2 ? null : (otherWords.get(word) ?? closest(word, commands)[0] ?? null);
}

/** Commands of other programs, and what does here what they do. A Service may have such a name. */
const otherWords: ReadonlyMap<string, string> = new Map([
  ['version', '--version'],
  ...['list', 'ls', 'get', 'status'].map(word => [word, 'check -A'] as const),
  ['describe', 'trace'],
]);

/** The parser's messages in plain words. */
function plainMessage(message: string): string {
  // On a terminal some of them are dimmed.
  const text = stripVTControlCharacters(message)
    .replace(/\n?See more help with --help\s*$/, '')
    .replace(/\n\nNote: [\s\S]*$/, '')
    .replace(/^The following errors? occurred:\s*/, '')
    .trim();
  for (const [pattern, plain] of rephrased) if (pattern.test(text)) return text.replace(pattern, plain);
  return text;
}

const rephrased: readonly (readonly [pattern: RegExp, plain: (...parts: string[]) => string])[] = [
  [/^Nonexistent flags?: ([\s\S]*)$/, (_, flags = '') => `unknown flag ${flags.trim()}`],
  [/^Parsing (--\S+)\s+Expected an? (.*?) but received: ?([\s\S]*)$/, (_, flag, kind, value) => `${flag}: "${value}" is not an ${kind}`],
  [/^Parsing (--\S+)\s+([\s\S]*)$/, (_, flag, reason) => `${flag}: ${reason}`],
  [/^Expected (--[\w-]+)=([\s\S]*) to be one of: ([\s\S]*)$/, (_, flag, value, options) => `${flag}: "${value}" must be one of ${options}`],
  [/^Expected ([\s\S]*) to be one of: ([\s\S]*)$/, (_, value, options) => `"${value}" must be one of ${options}`],
  [/^Flag (--\S+) expects[\s\S]*$/, (_, flag) => `${flag} needs a value`],
  [/^Flag (--\S+) can only be specified once$/, (_, flag) => `${flag} can be given only once`],
  [/^Missing \d+ required args?:\s*\n?([\s\S]*)$/, (_, list = '') => `missing argument: ${firstWords(list)}`],
  [/^Unexpected arguments?: ([\s\S]*)$/, (_, list = '') => `unexpected argument: ${list.trim().replace(/,?\s+/g, ', ')}`],
  [
    /^(?:Missing required flag \S+\s*)+$/,
    (all = '') => {
      const flags = [...all.matchAll(/flag (\S+)/g)].map(([, name]) => `--${name}`);
      return `missing ${flags.length === 1 ? 'flag' : 'flags'}: ${flags.join(', ')}`;
    },
  ],
];

/** The names of a list of arguments with their descriptions. */
function firstWords(list: string): string {
  return list
    .split('\n')
    .map(line => line.trim().split(/\s/, 1)[0]?.toUpperCase() ?? '')
    .filter(name => name !== '')
    .join(', ');
}
