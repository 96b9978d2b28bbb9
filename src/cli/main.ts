import {fileURLToPath} from 'node:url';
import {handle, run, settings} from '@oclif/core';
import {valueFlags, withCommand, wordForCommand} from './command-line.ts';
import {meantCommand, shortError} from './short-error.ts';
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
    // Node.js runs the sources as they are; oclif must not look for something that compiles them.
    settings.enableAutoTranspile = false;
    const args = withCommand(argv, commands, valueFlags);
    // oclif looks here for the command at hand.
    process.argv.splice(2, Infinity, ...args);
    await run(args, await oclifOptions(fileURLToPath(new URL('..', url))));
    await flush();
  } catch (error) {
    // oclif ends the process, and what a pipe has not taken yet would be lost.
    await flush();
    const word = wordForCommand(argv, commands, valueFlags);
    await handle(meantCommand(shortError(withExitCode(error)), {word, commands}));
  }
}

/** Resolves when stdout has taken everything written so far, or is gone: a reader that has seen enough (`| head`) is no error. */
function flush(): Promise<void> {
  return new Promise(resolve => {
    process.stdout.write('', () => resolve());
  });
}

/** An error that does not name its exit code is a bug. It must not look like a finding (1), so it ends as "could not look" (3). */
function withExitCode(thrown: unknown): Error {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  return 'oclif' in error ? error : Object.assign(error, {oclif: {exit: 3}});
}
