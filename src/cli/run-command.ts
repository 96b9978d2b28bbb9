import process from 'node:process';
import {Errors, handle, run, settings} from '@oclif/core';
import {closest} from '../run/scope/closest.ts';
import {escapeText} from '../render/escape.ts';
import {wrapLines} from '../render/wrap.ts';
import {wordForCommand} from './command-line.ts';
import {oclifOptions} from './oclif-options.ts';
import {shortError} from './short-error.ts';
import {endOnWriteError} from './write-errors.ts';

/** What an error message needs to know about the command line. */
interface CommandLine {
  /** What follows the executable's name. */
  readonly argv: readonly string[];
  readonly commands: readonly string[];
  readonly flagsWithValue: readonly string[];
  readonly bin: string;
}

/** Runs the command at the beginning of the arguments, of the program in this folder. */
export async function runCommand(args: readonly string[], root: string): Promise<void> {
  // Node.js runs the sources directly; oclif must not look for a compiler.
  settings.enableAutoTranspile = false;
  // oclif's listener would throw what cannot be written, before debug pods are removed.
  process.stdout.removeAllListeners('error');
  endOnWriteError();
  // oclif reads the current command here.
  process.argv.splice(2, Infinity, ...args);
  await run([...args], await oclifOptions(root));
}

/** Prints the error and ends the process: wrong use in one or two lines, a bug with its stack. */
export async function endWith(error: unknown, {argv, commands, flagsWithValue, bin}: CommandLine): Promise<void> {
  if (!isWrongUse(error)) return handle(withExitCode(error));
  const word = wordForCommand(argv, commands, flagsWithValue);
  process.stderr.write(`${wrapLines(shortError(error, {word, commands, bin}), terminalWidth(process.stderr))}\n`);
  process.exit(error.oclif.exit);
}

export function unknownCommand(word: string, commands: readonly string[]): Error {
  return new Errors.CLIError(`unknown command "${escapeText(word)}"`, {exit: 2, suggestions: [...closest(word, commands)]});
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
