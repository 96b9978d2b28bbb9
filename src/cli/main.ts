import {fileURLToPath} from 'node:url';
import {Errors, handle, run, settings} from '@oclif/core';
import {valueFlags, withCommand, wordForCommand} from './command-line.ts';
import {shortError} from './short-error.ts';
import {showHelp} from './help/show-help.ts';
import {closest} from '../run/scope/closest.ts';
import {escapeText} from '../render/escape.ts';
import {wrapLines} from '../render/wrap.ts';
import {commandModules} from './command-modules.ts';
import {oclifOptions} from './oclif-options.ts';

/**
 * Runs the command line and sets the exit code.
 * @param argv what follows the executable's name
 * @param url of the executable, a file in the package's `bin`
 */
export async function main(argv: readonly string[], url: string): Promise<void> {
  if (argv[0] === '__complete') return (await import('./complete/main.ts')).completeMain(argv.slice(1), url);
  const commands = Object.keys(commandModules);
  try {
    // Node.js runs the sources directly; oclif must not look for a compiler.
    settings.enableAutoTranspile = false;
    // `help -h` is `help`, as in kubectl.
    const asked = argv[0] === 'help' && /^(?:-h|--help)$/.test(argv[1] ?? '') ? ['help'] : argv;
    const args = withCommand(asked, commands, valueFlags);
    const root = fileURLToPath(new URL('..', url));
    if (await showHelp(args, {root, bin})) return;
    if (asked[0] === 'help' && asked.length > 1) throw unknownCommand(asked[1] ?? '', commands);
    // oclif reads the current command here.
    process.argv.splice(2, Infinity, ...args);
    await run(args, await oclifOptions(root));
    await flush();
  } catch (error) {
    // oclif ends the process, and output still in the pipe would be lost.
    await flush();
    if (!isWrongUse(error)) return handle(withExitCode(error));
    const word = wordForCommand(argv, commands, valueFlags);
    process.stderr.write(`${wrapLines(shortError(error, {word, commands, bin}), terminalWidth(process.stderr))}\n`);
    process.exit(error.oclif.exit);
  }
}

const bin = 'kubectl svc-trace';

/** Columns; without a terminal lines can have any length. */
function terminalWidth({isTTY, columns}: NodeJS.WriteStream): number {
  return isTTY ? (columns ?? 80) : Infinity;
}

/** An error with a message for the user; not the end of a command with an exit code. */
function isWrongUse(error: unknown): error is Error & {readonly oclif: {readonly exit: number}} {
  return error instanceof Errors.CLIError && !(error instanceof Errors.ExitError) && error.oclif.exit !== undefined;
}

function unknownCommand(word: string, commands: readonly string[]): Error {
  return new Errors.CLIError(`unknown command "${escapeText(word)}"`, {exit: 2, suggestions: [...closest(word, commands)]});
}

/** Resolves when stdout has written everything, or is closed: a reader that closes the pipe (`| head`) is no error. */
function flush(): Promise<void> {
  return new Promise(resolve => {
    process.stdout.write('', () => resolve());
  });
}

/** An error without an exit code is a bug. It must not look like a finding (1), so it exits like a failed check (3). */
function withExitCode(thrown: unknown): Error {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  return 'oclif' in error ? error : Object.assign(error, {oclif: {exit: 3}});
}
